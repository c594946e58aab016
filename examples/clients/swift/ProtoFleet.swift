// A bundle's client but for the runtime, to copy into your app: photos to the network's size, what a
// fleet publishes, how sure an answer is, and what is unknown. The formats are in docs/bundle.md and
// docs/wire.md. `protofleet conformance` holds it to Python.
import Foundation

struct BundleError: Error {
    let words: String
}

func must(_ holds: Bool, _ words: String) throws {
    if !holds { throw BundleError(words: words) }
}

// ---- photos ------------------------------------------------------------------------------------

private struct Axis {
    let from, to, lines, line, step, toLine, toStep: Int
}

// One axis of Pillow's BILINEAR: each place is a mean over a triangle, twice as wide as what it
// stands for. What looks at the nearest pixels alone (Core Graphics at low quality) costs points.
private func along(_ pixels: [UInt8], _ axis: Axis, _ channels: Int) -> [UInt8] {
    if axis.from == axis.to { return pixels }
    var out = [UInt8](repeating: 0, count: axis.lines * axis.to * channels)
    let scale = Double(axis.from) / Double(axis.to)
    let support = max(scale, 1)
    for place in 0..<axis.to {
        let centre = (Double(place) + 0.5) * scale
        let first = max(0, Int(centre - support + 0.5))
        let end = min(axis.from, Int(centre + support + 0.5))
        let share = (first..<end).map { max(0, 1 - abs((Double($0) - centre + 0.5) / support)) }
        let sum = share.reduce(0, +)
        let weights = share.map { Int(0.5 + $0 / sum * 4_194_304) }  // whole numbers of 2^-22
        for n in 0..<axis.lines {
            for c in 0..<channels {
                var total = 1 << 21
                var at = n * axis.line + first * axis.step + c
                for weight in weights {
                    total += Int(pixels[at]) * weight
                    at += axis.step
                }
                out[n * axis.toLine + place * axis.toStep + c] = UInt8(total >> 22)
            }
        }
    }
    return out
}

/// height × width × channels at another size: rows first, rounded, then columns.
func resized(_ pixels: [UInt8], height: Int, width: Int, channels: Int, toHeight: Int, toWidth: Int) -> [UInt8] {
    let (row, toRow) = (width * channels, toWidth * channels)
    let across = Axis(from: width, to: toWidth, lines: height, line: row, step: channels, toLine: toRow, toStep: channels)
    let down = Axis(from: height, to: toHeight, lines: toWidth, line: channels, step: toRow, toLine: channels, toStep: toRow)
    return along(along(pixels, across, channels), down, channels)
}

/// An upright RGB photo as the network takes it; grey is made as Pillow makes it.
func fromPhoto(_ rgb: [UInt8], height: Int, width: Int, shape: [Int]) throws -> [UInt8] {
    try must(shape.count == 3 && (shape[2] == 1 || shape[2] == 3), "an image of 1 or 3 channels is due")
    var pixels = rgb
    if shape[2] == 1 {
        pixels = (0..<height * width).map { at in
            let (r, g, b) = (Int(rgb[3 * at]), Int(rgb[3 * at + 1]), Int(rgb[3 * at + 2]))
            return UInt8((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16)
        }
    }
    return resized(pixels, height: height, width: width, channels: shape[2], toHeight: shape[0], toWidth: shape[1])
}

// ---- the fleet's CBOR --------------------------------------------------------------------------

indirect enum Value {
    case none, logical(Bool), whole(UInt64), negative(UInt64), real(Double)
    case bytes([UInt8]), text(String), list([Value]), map([String: Value]), tagged(UInt64, Value)

    subscript(key: String) -> Value? {
        if case .map(let map) = self { return map[key] }
        return nil
    }
}

func half(_ bits: UInt16) throws -> Double {
    let (exponent, fraction) = (Int(bits >> 10) & 31, Double(bits & 1023))
    try must(exponent != 31, "a number is not finite")
    let size = exponent > 0 ? pow(2, Double(exponent - 15)) * (1 + fraction / 1024) : pow(2, -14) * (fraction / 1024)
    return bits & 0x8000 == 0 ? size : -size
}

struct Decoder {
    private let data: [UInt8]
    private var at = 0

    init(_ data: [UInt8]) { self.data = data }

    static func whole(_ data: [UInt8]) throws -> Value {
        var decoder = Decoder(data)
        let value = try decoder.next(0)
        try must(decoder.at == data.count, "the message has bytes to spare")
        return value
    }

    private mutating func take(_ n: UInt64) throws -> ArraySlice<UInt8> {
        try must(n <= UInt64(data.count - at), "the message is cut short")
        at += Int(n)
        return data[at - Int(n)..<at]
    }

    private mutating func number(_ width: UInt64) throws -> UInt64 {
        try take(width).reduce(0) { $0 << 8 | UInt64($1) }
    }

    private mutating func next(_ depth: Int) throws -> Value {
        let unknown = BundleError(words: "the message is not of the known form")
        try must(depth <= 16, "the message is nested too deep")
        let head = try number(1)
        let (major, info) = (head >> 5, head & 31)
        if info > 27 { throw unknown }
        if major == 7 {
            switch info {
            case 20, 21: return .logical(info == 21)
            case 22: return .none
            case 25: return .real(try half(UInt16(try number(2))))
            case 26: return .real(Double(Float(bitPattern: UInt32(try number(4)))))
            case 27: return .real(Double(bitPattern: try number(8)))
            default: throw unknown
            }
        }
        let n = info < 24 ? info : try number(1 << (info - 24))
        switch major {
        case 0: return .whole(n)
        case 1: return .negative(n)
        case 2: return .bytes([UInt8](try take(n)))
        case 3:
            // Not `String(decoding:)`, which takes what is no text and says nothing.
            guard let text = String(bytes: try take(n), encoding: .utf8) else { throw unknown }
            return .text(text)
        case 4, 5:
            try must(n <= UInt64(data.count), "the message is cut short")
            var (items, map) = ([Value](), [String: Value]())
            for _ in 0..<n {
                let item = try next(depth + 1)
                if major == 4 {
                    items.append(item)
                    continue
                }
                guard case .text(let key) = item else { throw unknown }
                try must(map[key] == nil, "a key stands twice")
                map[key] = try next(depth + 1)
            }
            return major == 4 ? .list(items) : .map(map)
        default: return .tagged(n, try next(depth + 1))
        }
    }
}

struct Numbers {
    var shape: [Int]
    var data: [Double]
}

/// A typed array of RFC 8746, or int8 rows with their scales.
func numbers(_ raw: Value?) throws -> Numbers {
    let unknown = BundleError(words: "an array is not of the known form")
    if case .map(let parts)? = raw {
        var (rows, scales) = (try numbers(parts["q"]), try numbers(parts["s"]))
        if rows.shape.count != 2 || scales.data.count != rows.shape[0] { throw unknown }
        for i in rows.data.indices { rows.data[i] *= scales.data[i / rows.shape[1]] }
        return rows
    }
    var (shape, typed): ([Int]?, Value?) = (nil, raw)
    if case .tagged(40, .list(let pair))? = raw {
        guard pair.count == 2, case .list(let sides) = pair[0] else { throw unknown }
        shape = try sides.map { side in
            guard case .whole(let n) = side, n <= UInt32.max else { throw unknown }
            return Int(n)
        }
        typed = pair[1]
    }
    guard case .tagged(let tag, .bytes(let bytes))? = typed else { throw unknown }
    guard let width = [64: 1, 72: 1, 79: 8, 84: 2, 85: 4][tag], bytes.count % width == 0 else { throw unknown }
    var data = [Double]()
    data.reserveCapacity(bytes.count / width)
    for at in stride(from: 0, to: bytes.count, by: width) {
        var bits: UInt64 = 0  // little-endian, whatever this machine is
        for i in 0..<width { bits |= UInt64(bytes[at + i]) << (8 * UInt64(i)) }
        switch tag {
        case 64: data.append(Double(bits))
        case 72: data.append(Double(Int8(bitPattern: UInt8(bits))))
        case 79: data.append(Double(Int64(bitPattern: bits)))
        case 84: data.append(try half(UInt16(bits)))
        default: data.append(Double(Float(bitPattern: UInt32(bits))))
        }
    }
    try must(data.allSatisfy { $0.isFinite }, "a number is not finite")
    let sides = shape ?? [data.count]
    try must(sides.reduce(1.0) { $0 * Double($1) } == Double(data.count), "an array's sizes do not fit its values")
    return Numbers(shape: sides, data: data)
}

// ---- what a fleet publishes --------------------------------------------------------------------

struct Sure: Decodable {
    let temperature: Double
    let confidences, probabilities, usual: [Double]?
}

struct About: Decodable {
    let lineage: String
    let classes: [String]
    let calibration: Sure?
}

struct Bank {
    let kind: String
    let about: About
    let rows: [Int]  // the class of each row
    let points: [String: Numbers]
}

/// Class names, lineage and points of a message, or a BundleError.
func readPublished(_ message: [UInt8]) throws -> Bank {
    try must(message.count <= 64 << 20, "the message is too long")
    let whole = try Decoder.whole(message)
    guard case .whole(1)? = whole["v"], case .text("global")? = whole["t"], case .tagged(24, .bytes(let body))? = whole["body"]
    else { throw BundleError(words: "these bytes are no published prototypes") }
    let parts = try Decoder.whole(body)
    let unsaid = BundleError(words: "the published prototypes do not say what they are")
    guard let kind = ["prototypes", "mixtures", "head"].first(where: { parts[$0] != nil }), case .map(let part)? = parts[kind],
        let json = parts["about"]?["arrays"]?["json"]
    else { throw unsaid }
    let text = try numbers(json).data
    guard text.allSatisfy({ $0 >= 0 && $0 <= 255 }),
        let about = try? JSONDecoder().decode(About.self, from: Data(text.map { UInt8($0) }))
    else { throw unsaid }
    try must(!about.classes.contains("") && Set(about.classes).count == about.classes.count, "class names that differ are due")
    if let sure = about.calibration { try sound(sure) }
    var points = [String: Numbers]()
    for (name, raw) in part where name != "kind" { points[name] = try numbers(raw) }
    let rows = points["classes"]?.data.map { Int($0) } ?? []
    try must(points["classes"] != nil && rows.allSatisfy { about.classes.indices.contains($0) }, "a prototype is of no class")
    try must(rows == rows.sorted(), "prototypes in the order of their classes are due")
    return Bank(kind: kind, about: about, rows: rows, points: points)
}

private func sound(_ sure: Sure) throws {
    let (x, y, usual) = (sure.confidences ?? [], sure.probabilities ?? [], sure.usual ?? [0, 0])
    let rising = { (all: [Double]) in all == all.sorted() && all.allSatisfy { (0...1).contains($0) } }
    let warm = sure.temperature >= pow(2, -20) && sure.temperature.isFinite
    let knots = x.count == y.count && rising(x) && rising(y)
    try must(warm && knots && usual.count == 2 && usual[0] <= usual[1], "the calibration contradicts itself")
}

// ---- points as the graph's inputs --------------------------------------------------------------

struct Reading {
    let by, metric: String
    let plain: Bool  // the feature as it is, which is what a head of sums reads
}

struct Ready {
    let bank: Bank
    var w: [Float]  // width × rows, one row of the matrix after another
    var b: [Float]
    var c: [Float]?  // of mixtures alone
    let width: Int
    let present: [Int]  // the classes that have points
    var labels: [String] { present.map { bank.about.classes[$0] } }
}

/// `embedding` is the manifest's: how long a feature is.
func ready(_ bank: Bank, _ reading: Reading, embedding d: Int) throws -> Ready {
    try must(bank.kind == reading.by || (bank.kind == "head" && reading.plain), "this bundle classifies otherwise")
    let n = bank.rows.count
    func part(_ name: String, _ shape: [Int]) throws -> [Double] {
        guard let numbers = bank.points[name], numbers.shape == shape else {
            throw BundleError(words: "these points have another size")
        }
        return numbers.data
    }
    let width = bank.kind == "mixtures" ? 2 * d : d
    var (w, b) = ([Float](repeating: 0, count: width * n), [Float](repeating: 0, count: n))
    var c: [Float]?
    switch bank.kind {
    case "prototypes":
        let vectors = try part("vectors", [n, d])
        let cosine = reading.metric == "cosine"
        for p in 0..<n {
            let square = vectors[p * d..<(p + 1) * d].reduce(0) { $0 + $1 * $1 }
            let scale = cosine ? 1 / max(square.squareRoot(), 1e-12) : 1
            for i in 0..<d { w[i * n + p] = Float(2 * vectors[p * d + i] * scale) }
            b[p] = cosine ? -1 : Float(-square)
        }
    case "head":
        let (weight, bias) = (try part("weight", [n, d]), try part("bias", [n]))
        for p in 0..<n {
            for i in 0..<d { w[i * n + p] = Float(weight[p * d + i]) }
            b[p] = Float(bias[p])
        }
    default:
        let (mean, variance) = (try part("means", [n, d]), try part("variances", [n, d]))
        let weight = try part("weights", [n])
        let centre = (0..<d).map { i in Float((0..<n).reduce(0.0) { $0 + mean[$1 * d + i] } / Double(max(n, 1))) }
        for p in 0..<n {
            var constant = max(log(weight[p]), -1e30)
            for i in 0..<d {
                let (m, precision) = (mean[p * d + i] - Double(centre[i]), 1 / variance[p * d + i])
                w[i * n + p] = Float(-0.5 * precision)
                w[(d + i) * n + p] = Float(m * precision)
                constant += 0.5 * log(precision / (2 * Double.pi)) - 0.5 * m * m * precision
            }
            b[p] = Float(constant)
        }
        c = centre
    }
    let sound = (w + b + (c ?? [])).allSatisfy { abs($0) <= 1e30 }
    try must(sound, "points so large that no score of them is a number")
    let present = bank.rows.enumerated().filter { $0 == 0 || bank.rows[$0 - 1] != $1 }.map { $0.element }
    return Ready(bank: bank, w: w, b: b, c: c, width: width, present: present)
}

// ---- answers -----------------------------------------------------------------------------------

struct Answer {
    var label: String?  // of the likeliest class, also of what is unknown; nil while no class is known
    var scores: [Double] = []
    var probabilities: [Double]?  // nil where nobody calibrated these scores
    var unknown: Bool?  // nil where there is nothing to tell it by
}

/// What the graph's last step makes of a feature, in double precision.
func linear(_ feature: [Float], _ points: Ready) -> [Double] {
    var score = points.b.map { Double($0) }
    let (d, n) = (feature.count, score.count)
    for i in 0..<d {
        let v = Double(feature[i]) - Double(points.c?[i] ?? 0)
        for p in 0..<n {
            let w = Double(points.w[i * n + p])
            score[p] += points.c == nil ? v * w : v * v * w + v * Double(points.w[(d + i) * n + p])
        }
    }
    return score
}

/// Of each class the best of its rows, or all its Gaussians together.
func byClass(_ score: [Double], _ points: Ready) -> [Double] {
    let place = Dictionary(uniqueKeysWithValues: points.present.enumerated().map { ($1, $0) })
    let of = points.bank.rows.map { place[$0]! }
    var best = [Double](repeating: -.infinity, count: place.count)
    for p in score.indices { best[of[p]] = max(best[of[p]], score[p]) }
    if points.bank.kind != "mixtures" { return best }
    var sum = [Double](repeating: 0, count: best.count)
    for p in score.indices { sum[of[p]] += exp(score[p] - best[of[p]]) }
    return zip(best, sum).map { $0 + log($1) }
}

func shares(_ score: [Double], _ sure: Sure) -> [Double] {
    let best = score.indices.max { score[$0] < score[$1] }!
    let raised = score.map { exp(($0 - score[best]) / sure.temperature) }
    let sum = raised.reduce(0, +)
    let share = raised.map { $0 / sum }
    let (x, y) = (sure.confidences ?? [], sure.probabilities ?? [])
    if x.isEmpty { return share }
    let k = x.filter { $0 <= share[best] }.count
    var top = k == 0 ? y[0] : y[y.count - 1]
    if k > 0 && k < x.count { top = y[k - 1] + (y[k] - y[k - 1]) / (x[k] - x[k - 1]) * (share[best] - x[k - 1]) }
    let others = share.indices.filter { $0 != best }.reduce(0) { $0 + share[$1] }
    let rest = (1 - top) / max(others, 1e-300)
    return share.indices.map { $0 == best ? top : min(top, share[$0] * rest) }
}

/// How little a sample is like any class, where no fleet calibrated its scores.
func oddness(_ kind: String, _ feature: [Float], _ score: [Double]) -> Double {
    let top = score.max()!
    if kind == "prototypes" { return feature.reduce(0.0) { $0 + Double($1) * Double($1) } - top }
    if kind == "mixtures" { return -top }
    return -(top + log(score.reduce(0.0) { $0 + exp($1 - top) }))
}

/// Above which oddness a sample is unknown: the share `keep` of a bundle's check samples (`seen.f32`,
/// by `--also raw`) lies below. nil where there are none.
func threshold(_ seen: [Float], embedding d: Int, keep: Double, _ points: Ready) -> Double? {
    if points.present.isEmpty || seen.count < d { return nil }
    let odd = (0..<seen.count / d).map { row in
        let feature = Array(seen[row * d..<(row + 1) * d])
        return oddness(points.bank.kind, feature, byClass(linear(feature, points), points))
    }.sorted()
    let place = keep * Double(odd.count - 1)
    let below = Int(place)
    return odd[below] + (place - Double(below)) * (odd[min(below + 1, odd.count - 1)] - odd[below])
}

/// What a sample is, from the graph's two outputs for it; `cut` is `threshold` of these points.
func judged(score: [Float], feature: [Float], _ points: Ready, cut: Double?) -> Answer {
    if points.present.isEmpty { return Answer() }
    let (sure, kind) = (points.bank.about.calibration, points.bank.kind)
    // A calibrated head's rows are differences of large numbers: single precision would be seen.
    let precise = sure != nil && kind == "head"
    let scores = byClass(precise ? linear(feature, points) : score.map { Double($0) }, points)
    let best = scores.indices.max { scores[$0] < scores[$1] }!
    var answer = Answer(label: points.labels[best], scores: scores, probabilities: sure.map { shares(scores, $0) })
    if let usual = sure?.usual {
        answer.unknown = -scores[best] < usual[0] || -scores[best] > usual[1]
    } else if let cut {
        answer.unknown = oddness(kind, feature, scores) > cut
    }
    return answer
}
