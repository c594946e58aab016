// A bundle's folder in use by onnxruntime (com.microsoft.onnxruntime:onnxruntime-android): new
// prototypes are one call, and an answer is of the old ones or of the new ones.
package protofleet

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import org.json.JSONObject

class Classifier(bundle: File) : AutoCloseable {
    private class InUse(val points: Ready, val cut: Double?)

    private val manifest = JSONObject(File(bundle, "manifest.json").readText())
    private val environment = OrtEnvironment.getEnvironment()
    private val session: OrtSession
    private val reading: Reading
    private val embedding = manifest.getInt("embedding")
    private val seen: FloatArray

    @Volatile private lateinit var inUse: InUse

    /** One sample's sizes: height, width and channels of an image. */
    val shape: List<Int> = manifest.getJSONObject("input").getJSONArray("shape").let { sides -> List(sides.length()) { sides.getInt(it) } }

    init {
        must(manifest.getString("schema") == "protofleet-bundle/1", "the schema is not known here")
        // An int8 graph sees everything a little elsewhere, and `drift.npz` says by how much.
        must(!manifest.getJSONObject("files").has("drift.npz"), "take a bundle of fp32 or fp16")
        val by = manifest.getJSONObject("reading")
        val metric = by.optString("metric", "euclidean")
        val plain = metric == "euclidean" && !by.optBoolean("of_unit") && by.optString("through").isEmpty()
        reading = Reading(by.getString("by"), metric, plain && by.getString("by") == "prototypes")
        seen = File(bundle, "seen.f32").takeIf { it.exists() }?.let { floats(it.readBytes()) } ?: FloatArray(0)
        session = OrtSession.SessionOptions().use { options ->
            options.setIntraOpNumThreads(1)
            environment.createSession(File(bundle, "model.onnx").path, options)
        }
        swap(File(bundle, "prototypes.cbor").readBytes())
    }

    /** Classify by these from the next call on; what does not fit is a BundleException, and nothing changes. */
    fun swap(message: ByteArray) {
        val bank = readPublished(message)
        val lineages = manifest.getJSONArray("lineages")
        must((0 until lineages.length()).any { lineages.getString(it) == bank.lineage }, "these prototypes are of another lineage")
        val points = ready(bank, reading, embedding)
        val keep = manifest.getJSONObject("unknown").getDouble("keep")
        inUse = InUse(points, threshold(seen, embedding, keep, points))
    }

    /** One sample as the network takes it: bytes of an image (`fromPhoto`). */
    fun classify(image: ByteArray): Answer {
        must(image.size == shape.fold(1, Int::times), "a sample of another size")
        val direct = ByteBuffer.allocateDirect(image.size).order(ByteOrder.nativeOrder()).put(image)
        direct.rewind()
        return look { OnnxTensor.createTensor(environment, direct, sizes(), OnnxJavaType.UINT8) }
    }

    /** ... or the floats of a vector or a series. */
    fun classify(sample: FloatArray): Answer {
        must(sample.size == shape.fold(1, Int::times), "a sample of another size")
        return look { OnnxTensor.createTensor(environment, FloatBuffer.wrap(sample), sizes()) }
    }

    override fun close() = session.close()

    private fun sizes() = longArrayOf(1, *shape.map { it.toLong() }.toLongArray())

    private fun look(sample: () -> OnnxTensor): Answer {
        val now = inUse // once: what comes meanwhile is the next call's
        val points = now.points
        val inputs = LinkedHashMap<String, OnnxTensor>()
        try {
            fun give(name: String, data: FloatArray, vararg sizes: Int) {
                val shape = LongArray(sizes.size) { sizes[it].toLong() }
                inputs[name] = OnnxTensor.createTensor(environment, FloatBuffer.wrap(data), shape)
            }
            inputs["image"] = sample()
            give("proto_w", points.w, points.width, points.rows)
            give("proto_b", points.b, points.rows)
            points.c?.let { give("proto_c", it, it.size) }
            session.run(inputs, setOf("score", "feature")).use { out ->
                fun row(name: String): FloatArray {
                    val tensor = out.get(name).get() as OnnxTensor
                    val values = tensor.floatBuffer // a copy: the tensor is closed with `out`
                    return FloatArray(values.remaining()).also { values.get(it) }
                }
                return judged(row("score"), row("feature"), points, now.cut)
            }
        } finally {
            inputs.values.forEach { it.close() } // memory outside of Java's heap: nobody else frees it
        }
    }
}

internal fun floats(bytes: ByteArray): FloatArray {
    val values = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer()
    return FloatArray(values.remaining()).also { values.get(it) }
}
