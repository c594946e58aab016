// Answers a conformance folder, on a desktop: prints what `protofleet conformance check FOLDER` takes.
package protofleet

import java.io.File
import org.json.JSONArray
import org.json.JSONObject

fun answered(folder: File): JSONObject {
    val expected = JSONObject(File(folder, "expected.json").readText())
    fun list(name: String) = expected.getJSONArray(name).let { all -> List(all.length()) { all[it] } }
    val (states, refused) = Pair(JSONArray(), JSONArray())
    Classifier(File(folder, "bundle")).use { classifier ->
        for (state in list("states")) {
            classifier.swap(File(folder, (state as JSONObject).getString("file")).readBytes())
            val answers = JSONArray()
            for (input in list("inputs")) {
                val raw = File(folder, (input as JSONObject).getString("file")).readBytes()
                answers.put(plain(if (input.getString("kind") == "photo") photo(raw, classifier) else classifier.classify(floats(raw))))
            }
            states.put(JSONObject().put("answers", answers))
        }
        for (name in list("refused")) {
            val words = try {
                classifier.swap(File(folder, name as String).readBytes())
                ""
            } catch (error: BundleException) {
                error.message
            }
            refused.put(words)
        }
    }
    return JSONObject().put("states", states).put("refused", refused)
}

private fun photo(ppm: ByteArray, classifier: Classifier): Answer {
    val head = Regex("^P6\\s(\\d+)\\s(\\d+)\\s255\\s").find(String(ppm, 0, minOf(32, ppm.size), Charsets.ISO_8859_1))!!
    val (width, height) = head.destructured
    val rgb = ppm.copyOfRange(head.value.length, ppm.size)
    return classifier.classify(fromPhoto(rgb, height.toInt(), width.toInt(), classifier.shape))
}

private fun plain(answer: Answer) = JSONObject()
    .put("label", answer.label ?: JSONObject.NULL)
    .put("scores", JSONArray(answer.scores))
    .put("probabilities", answer.probabilities?.let { JSONArray(it) } ?: JSONObject.NULL)
    .put("unknown", answer.unknown ?: JSONObject.NULL)

fun main(words: Array<String>) = println(answered(File(words[0])))
