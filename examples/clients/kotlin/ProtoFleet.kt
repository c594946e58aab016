// A bundle's client but for the runtime, to copy into your app: photos to the network's size, what a
// fleet publishes, how sure an answer is, and what is unknown. JSON is Android's own org.json; the
// formats are in docs/bundle.md and docs/wire.md. `protofleet conformance` holds it to Python.
package protofleet

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.abs
import kotlin.math.exp
import kotlin.math.ln
import kotlin.math.max
import kotlin.math.min
import kotlin.math.pow
import kotlin.math.sqrt
import org.json.JSONException
import org.json.JSONObject

class BundleException(words: String) : Exception(words)

internal fun must(holds: Boolean, words: String) {
    if (!holds) throw BundleException(words)
}

// ---- photos ------------------------------------------------------------------------------------

private class Axis(val from: Int, val to: Int, val lines: Int, val line: Int, val step: Int, val toLine: Int, val toStep: Int)

// One axis of Pillow's BILINEAR: each place is a mean over a triangle, twice as wide as what it
// stands for. What looks at the nearest pixels alone (createScaledBitmap) costs points.
private fun along(pixels: ByteArray, axis: Axis, channels: Int): ByteArray {
    if (axis.from == axis.to) return pixels
    val out = ByteArray(axis.lines * axis.to * channels)
    val scale = axis.from.toDouble() / axis.to
    val support = max(scale, 1.0)
    for (place in 0 until axis.to) {
        val centre = (place + 0.5) * scale
        val first = max(0, (centre - support + 0.5).toInt())
        val end = min(axis.from, (centre + support + 0.5).toInt())
        val share = DoubleArray(end - first) { max(0.0, 1 - abs((it + first - centre + 0.5) / support)) }
        val sum = share.sum()
        val weights = IntArray(share.size) { (0.5 + share[it] / sum * (1 shl 22)).toInt() } // whole numbers of 2^-22
        for (n in 0 until axis.lines) {
            for (c in 0 until channels) {
                var total = 1L shl 21
                var at = n * axis.line + first * axis.step + c
                for (weight in weights) {
                    total += (pixels[at].toInt() and 255) * weight.toLong()
                    at += axis.step
                }
                out[n * axis.toLine + place * axis.toStep + c] = (total shr 22).toByte()
            }
        }
    }
    return out
}

/** height × width × channels at another size: rows first, rounded, then columns. */
fun resized(pixels: ByteArray, height: Int, width: Int, channels: Int, toHeight: Int, toWidth: Int): ByteArray {
    val (row, toRow) = Pair(width * channels, toWidth * channels)
    val narrow = along(pixels, Axis(width, toWidth, height, row, channels, toRow, channels), channels)
    return along(narrow, Axis(height, toHeight, toWidth, channels, toRow, channels, toRow), channels)
}

/** An upright RGB photo as the network takes it; grey is made as Pillow makes it. Of a Bitmap: getPixels, three bytes each. */
fun fromPhoto(rgb: ByteArray, height: Int, width: Int, shape: List<Int>): ByteArray {
    must(shape.size == 3 && (shape[2] == 1 || shape[2] == 3), "an image of 1 or 3 channels is due")
    if (shape[2] == 3) return resized(rgb, height, width, 3, shape[0], shape[1])
    val byte = { at: Int -> rgb[at].toInt() and 255 }
    val grey = ByteArray(height * width) {
        ((byte(3 * it) * 19595 + byte(3 * it + 1) * 38470 + byte(3 * it + 2) * 7471 + 0x8000) shr 16).toByte()
    }
    return resized(grey, height, width, 1, shape[0], shape[1])
}

// ---- the fleet's CBOR --------------------------------------------------------------------------

class Tagged(val tag: Long, val value: Any?)

fun half(bits: Int): Double {
    val (exponent, fraction) = Pair((bits shr 10) and 31, bits and 1023)
    must(exponent != 31, "a number is not finite")
    val size = if (exponent > 0) 2.0.pow(exponent - 15) * (1 + fraction / 1024.0) else 2.0.pow(-14) * (fraction / 1024.0)
    return if (bits and 0x8000 != 0) -size else size
}

/** Whole numbers become Long, bytes a ByteBuffer, maps have texts as keys. */
fun decodeCbor(bytes: ByteBuffer): Any? {
    val data = bytes.slice().order(ByteOrder.BIG_ENDIAN)
    fun room(n: Long) = must(n in 0..data.remaining().toLong(), "the message is cut short")
    fun number(width: Int): Long {
        room(width.toLong())
        return (0 until width).fold(0L) { sum, _ -> (sum shl 8) or (data.get().toLong() and 255) }
    }
    fun next(depth: Int): Any? {
        must(depth <= 16, "the message is nested too deep")
        val head = number(1).toInt()
        val (major, info) = Pair(head shr 5, head and 31)
        must(info < 28, "the message is not of the known form")
        if (major == 7) {
            return when (info) {
                20, 21 -> info == 21
                22 -> null
                25 -> half(number(2).toInt())
                26 -> Float.fromBits(number(4).toInt()).toDouble()
                27 -> Double.fromBits(number(8))
                else -> throw BundleException("the message is not of the known form")
            }
        }
        val n = if (info < 24) info.toLong() else number(1 shl (info - 24))
        must(n >= 0, "the message is not of the known form")
        return when (major) {
            0 -> n
            1 -> -1 - n
            2, 3 -> {
                room(n)
                val part = data.slice()
                part.limit(n.toInt())
                data.position(data.position() + n.toInt())
                // A decoder of its own: the usual one takes what is no text and says nothing.
                if (major == 2) part else Charsets.UTF_8.newDecoder().decode(part).toString()
            }
            4 -> {
                room(n)
                List(n.toInt()) { next(depth + 1) }
            }
            5 -> {
                room(n)
                val map = LinkedHashMap<String, Any?>()
                repeat(n.toInt()) {
                    val key = next(depth + 1) as? String ?: throw BundleException("the message is not of the known form")
                    must(key !in map, "a key stands twice")
                    map[key] = next(depth + 1)
                }
                map
            }
            else -> Tagged(n, next(depth + 1))
        }
    }
    val value = try {
        next(0)
    } catch (error: java.nio.charset.CharacterCodingException) {
        throw BundleException("a text is none")
    }
    must(!data.hasRemaining(), "the message has bytes to spare")
    return value
}

class Numbers(val shape: List<Int>, val data: DoubleArray)

private fun wrong(what: String): Nothing = throw BundleException("$what is not of the known form")

/** A typed array of RFC 8746, or int8 rows with their scales. */
fun numbers(raw: Any?): Numbers {
    if (raw is Map<*, *>) {
        val (rows, scales) = Pair(numbers(raw["q"]), numbers(raw["s"]))
        if (rows.shape.size != 2 || scales.data.size != rows.shape[0]) wrong("an array")
        return Numbers(rows.shape, DoubleArray(rows.data.size) { rows.data[it] * scales.data[it / rows.shape[1]] })
    }
    var typed = raw as? Tagged ?: wrong("an array")
    var shape: List<Int>? = null
    if (typed.tag == 40L) {
        val pair = typed.value as? List<*> ?: wrong("an array")
        if (pair.size != 2) wrong("an array")
        val sides = pair[0] as? List<*> ?: wrong("an array")
        shape = sides.map { side -> (side as? Long)?.takeIf { it in 0..Int.MAX_VALUE }?.toInt() ?: wrong("an array") }
        typed = pair[1] as? Tagged ?: wrong("an array")
    }
    val width = mapOf(64L to 1, 72L to 1, 79L to 8, 84L to 2, 85L to 4)[typed.tag] ?: wrong("an array")
    val bytes = (typed.value as? ByteBuffer ?: wrong("an array")).slice().order(ByteOrder.LITTLE_ENDIAN)
    val size = bytes.remaining() / width
    if (bytes.remaining() % width != 0) wrong("an array")
    val data = DoubleArray(size) {
        when (typed.tag) {
            64L -> (bytes.get(it).toInt() and 255).toDouble()
            72L -> bytes.get(it).toDouble()
            79L -> bytes.getLong(8 * it).toDouble()
            84L -> half(bytes.getShort(2 * it).toInt() and 0xFFFF)
            else -> bytes.getFloat(4 * it).toDouble()
        }
    }
    must(data.all { it.isFinite() }, "a number is not finite")
    val sides = shape ?: listOf(size)
    must(sides.fold(1.0) { all, side -> all * side } == size.toDouble(), "an array's sizes do not fit its values")
    return Numbers(sides, data)
}

// ---- what a fleet publishes --------------------------------------------------------------------

class Sure(val temperature: Double, val confidences: List<Double>, val probabilities: List<Double>, val usual: Pair<Double, Double>?)

class Bank(
    val kind: String,
    val lineage: String,
    val classes: List<String>,
    val rows: List<Int>, // the class of each row
    val points: Map<String, Numbers>,
    val sure: Sure?,
)

private fun sureOf(raw: JSONObject): Sure {
    fun list(name: String) = raw.optJSONArray(name)?.let { all -> List(all.length()) { all.getDouble(it) } }
    val ends = list("usual")
    val sure = Sure(
        raw.getDouble("temperature"),
        list("confidences") ?: emptyList(),
        list("probabilities") ?: emptyList(),
        ends?.let { Pair(it[0], it[1]) },
    )
    fun rising(all: List<Double>) = all == all.sorted() && all.all { it in 0.0..1.0 }
    val knots = sure.confidences.size == sure.probabilities.size && rising(sure.confidences) && rising(sure.probabilities)
    val ordered = sure.usual == null || (ends!!.size == 2 && ends[0] <= ends[1])
    val warm = sure.temperature >= 2.0.pow(-20) && sure.temperature.isFinite()
    must(knots && ordered && warm, "the calibration contradicts itself")
    return sure
}

/** Class names, lineage and points of a message, or a BundleException. */
fun readPublished(message: ByteArray): Bank {
    must(message.size <= 64 shl 20, "the message is too long")
    val whole = decodeCbor(ByteBuffer.wrap(message)) as? Map<*, *>
    val body = (whole?.get("body") as? Tagged)?.takeIf { it.tag == 24L }?.value as? ByteBuffer
    must(body != null && whole!!["v"] == 1L && whole["t"] == "global", "these bytes are no published prototypes")
    val parts = decodeCbor(body!!) as? Map<*, *>
    val json = ((parts?.get("about") as? Map<*, *>)?.get("arrays") as? Map<*, *>)?.get("json")
    must(json != null, "the published prototypes do not say what they are")
    val text = numbers(json).data
    val kind = listOf("prototypes", "mixtures", "head").firstOrNull { parts!!.containsKey(it) }
    val part = parts!![kind] as? Map<*, *> ?: wrong("what is published")
    val points = part.filterKeys { it != "kind" }.entries.associate { it.key as String to numbers(it.value) }
    try {
        val about = JSONObject(String(ByteArray(text.size) { text[it].toInt().toByte() }, Charsets.UTF_8))
        val names = about.getJSONArray("classes")
        val classes = List(names.length()) { names.get(it) as? String ?: wrong("a class name") }
        must("" !in classes && classes.toSet().size == classes.size, "class names that differ are due")
        val rows = (points["classes"] ?: wrong("what is published")).data.map { it.toInt() }
        must(rows.all { it in classes.indices }, "a prototype is of no class")
        must(rows == rows.sorted(), "prototypes in the order of their classes are due")
        val calibration = about.optJSONObject("calibration")
        return Bank(kind!!, about.getString("lineage"), classes, rows, points, calibration?.let { sureOf(it) })
    } catch (error: JSONException) {
        throw BundleException("the published prototypes do not say what they are")
    }
}

// ---- points as the graph's inputs --------------------------------------------------------------

/** `plain`: the feature as it is, which is what a head of sums reads. */
class Reading(val by: String, val metric: String, val plain: Boolean)

/** w is width × rows, one row of the matrix after another; c is of mixtures alone. */
class Ready(val bank: Bank, val w: FloatArray, val b: FloatArray, val c: FloatArray?, val width: Int) {
    val rows = b.size
    val present = bank.rows.distinct() // the classes that have points
    val labels = present.map { bank.classes[it] }
}

/** `embedding` is the manifest's: how long a feature is. */
fun ready(bank: Bank, reading: Reading, embedding: Int): Ready {
    must(bank.kind == reading.by || (bank.kind == "head" && reading.plain), "this bundle classifies otherwise")
    val (n, d) = Pair(bank.rows.size, embedding)
    fun part(name: String, columns: Int?): DoubleArray {
        val numbers = bank.points[name]
        must(numbers?.shape == listOfNotNull(n, columns), "these points have another size")
        return numbers!!.data
    }
    val width = if (bank.kind == "mixtures") 2 * d else d
    val (w, b) = Pair(FloatArray(width * n), FloatArray(n))
    var c: FloatArray? = null
    when (bank.kind) {
        "prototypes" -> {
            val vectors = part("vectors", d)
            val cosine = reading.metric == "cosine"
            for (p in 0 until n) {
                var square = 0.0
                for (i in 0 until d) square += vectors[p * d + i] * vectors[p * d + i]
                val scale = if (cosine) 1 / max(sqrt(square), 1e-12) else 1.0
                for (i in 0 until d) w[i * n + p] = (2 * vectors[p * d + i] * scale).toFloat()
                b[p] = if (cosine) -1f else (-square).toFloat()
            }
        }
        "head" -> {
            val (weight, bias) = Pair(part("weight", d), part("bias", null))
            for (p in 0 until n) {
                for (i in 0 until d) w[i * n + p] = weight[p * d + i].toFloat()
                b[p] = bias[p].toFloat()
            }
        }
        else -> {
            val (mean, variance, weight) = Triple(part("means", d), part("variances", d), part("weights", null))
            val centre = FloatArray(d) { i -> ((0 until n).sumOf { p -> mean[p * d + i] } / max(n, 1)).toFloat() }
            for (p in 0 until n) {
                var constant = max(ln(weight[p]), -1e30)
                for (i in 0 until d) {
                    val (m, precision) = Pair(mean[p * d + i] - centre[i], 1 / variance[p * d + i])
                    w[i * n + p] = (-0.5 * precision).toFloat()
                    w[(d + i) * n + p] = (m * precision).toFloat()
                    constant += 0.5 * ln(precision / (2 * Math.PI)) - 0.5 * m * m * precision
                }
                b[p] = constant.toFloat()
            }
            c = centre
        }
    }
    val sound = listOfNotNull(w, b, c).all { all -> all.all { abs(it) <= 1e30f } }
    must(sound, "points so large that no score of them is a number")
    return Ready(bank, w, b, c, width)
}

// ---- answers -----------------------------------------------------------------------------------

class Answer(
    val label: String?, // of the likeliest class, also of what is unknown; null while no class is known
    val scores: List<Double>,
    val probabilities: List<Double>?, // null where nobody calibrated these scores
    val unknown: Boolean?, // null where there is nothing to tell it by
)

/** What the graph's last step makes of a feature, in double precision. */
fun linear(feature: FloatArray, points: Ready): DoubleArray {
    val score = DoubleArray(points.rows) { points.b[it].toDouble() }
    for (i in feature.indices) {
        val v = feature[i].toDouble() - (points.c?.get(i) ?: 0f)
        for (p in score.indices) {
            val (w, below) = Pair(points.w[i * points.rows + p], (feature.size + i) * points.rows + p)
            score[p] += if (points.c == null) v * w else v * v * w + v * points.w[below]
        }
    }
    return score
}

/** Of each class the best of its rows, or all its Gaussians together. */
fun byClass(score: DoubleArray, points: Ready): List<Double> {
    val place = points.present.withIndex().associate { it.value to it.index }
    val best = DoubleArray(place.size) { Double.NEGATIVE_INFINITY }
    val of = points.bank.rows.map { place.getValue(it) }
    for (p in score.indices) best[of[p]] = max(best[of[p]], score[p])
    if (points.bank.kind != "mixtures") return best.toList()
    val sum = DoubleArray(best.size)
    for (p in score.indices) sum[of[p]] += exp(score[p] - best[of[p]])
    return best.indices.map { best[it] + ln(sum[it]) }
}

fun shares(score: List<Double>, sure: Sure): List<Double> {
    val best = score.indices.maxBy { score[it] }
    val raised = score.map { exp((it - score[best]) / sure.temperature) }
    val share = raised.map { it / raised.sum() }
    val (x, y) = Pair(sure.confidences, sure.probabilities)
    if (x.isEmpty()) return share
    val k = x.count { it <= share[best] }
    val top = when (k) {
        0 -> y.first()
        x.size -> y.last()
        else -> y[k - 1] + (y[k] - y[k - 1]) / (x[k] - x[k - 1]) * (share[best] - x[k - 1])
    }
    val rest = (1 - top) / max(share.filterIndexed { p, _ -> p != best }.sum(), 1e-300)
    return share.mapIndexed { p, s -> if (p == best) top else min(top, s * rest) }
}

/** How little a sample is like any class, where no fleet calibrated its scores. */
fun oddness(kind: String, feature: FloatArray, score: List<Double>): Double {
    val top = score.max()
    return when (kind) {
        "prototypes" -> feature.sumOf { it.toDouble() * it } - top
        "mixtures" -> -top
        else -> -(top + ln(score.sumOf { exp(it - top) }))
    }
}

/** Above which oddness a sample is unknown: the share `keep` of a bundle's check samples (`seen.f32`, by `--also raw`) lies
 *  below. Null where there are none. */
fun threshold(seen: FloatArray, embedding: Int, keep: Double, points: Ready): Double? {
    if (points.present.isEmpty() || seen.size < embedding) return null
    val odd = (0 until seen.size / embedding).map { row ->
        val feature = seen.copyOfRange(row * embedding, (row + 1) * embedding)
        oddness(points.bank.kind, feature, byClass(linear(feature, points), points))
    }.sorted()
    val place = keep * (odd.size - 1)
    val below = place.toInt()
    return odd[below] + (place - below) * (odd[min(below + 1, odd.size - 1)] - odd[below])
}

/** What a sample is, from the graph's two outputs for it; `cut` is `threshold` of these points. */
fun judged(score: FloatArray, feature: FloatArray, points: Ready, cut: Double?): Answer {
    if (points.present.isEmpty()) return Answer(null, emptyList(), null, null)
    val sure = points.bank.sure
    // A calibrated head's rows are differences of large numbers: single precision would be seen.
    val precise = sure != null && points.bank.kind == "head"
    val mine = if (precise) linear(feature, points) else DoubleArray(score.size) { score[it].toDouble() }
    val scores = byClass(mine, points)
    val best = scores.indices.maxBy { scores[it] }
    val unknown = when {
        sure?.usual != null -> -scores[best] < sure.usual.first || -scores[best] > sure.usual.second
        cut != null -> oddness(points.bank.kind, feature, scores) > cut
        else -> null
    }
    return Answer(points.labels[best], scores, sure?.let { shares(scores, it) }, unknown)
}
