// A bundle's folder in use by onnxruntime (the Swift package onnxruntime-swift-package-manager, or the
// pod onnxruntime-objc: then `import onnxruntime_objc`): new prototypes are one call, and an answer is
// of the old ones or of the new ones.
import Foundation
import OnnxRuntimeBindings

private struct Manifest: Decodable {
    struct Input: Decodable { let shape: [Int] }
    struct By: Decodable {
        let by: String
        let metric, through: String?
        let of_unit: Bool?
    }
    struct Unknown: Decodable { let keep: Double }

    let schema: String
    let input: Input
    let embedding: Int
    let reading: By
    let lineages: [String]
    let unknown: Unknown
    let files: [String: String]
}

final class Classifier {
    private struct InUse {
        let points: Ready
        let cut: Double?
    }

    private let manifest: Manifest
    private let session: ORTSession
    private let environment: ORTEnv
    private let reading: Reading
    private let seen: [Float]
    private let lock = NSLock()
    private var inUse: InUse?

    /// One sample's sizes: height, width and channels of an image.
    var shape: [Int] { manifest.input.shape }

    init(bundle: URL) throws {
        let file = { (name: String) in try Data(contentsOf: bundle.appendingPathComponent(name)) }
        manifest = try JSONDecoder().decode(Manifest.self, from: try file("manifest.json"))
        try must(manifest.schema == "protofleet-bundle/1", "the schema is not known here")
        // An int8 graph sees everything a little elsewhere, and `drift.npz` says by how much.
        try must(manifest.files["drift.npz"] == nil, "take a bundle of fp32 or fp16")
        let (by, metric) = (manifest.reading, manifest.reading.metric ?? "euclidean")
        let plain = by.by == "prototypes" && metric == "euclidean" && by.of_unit != true && (by.through ?? "").isEmpty
        reading = Reading(by: by.by, metric: metric, plain: plain)
        seen = (try? file("seen.f32")).map { floats($0) } ?? []
        environment = try ORTEnv(loggingLevel: .warning)
        let options = try ORTSessionOptions()
        try options.setIntraOpNumThreads(1)
        let model = bundle.appendingPathComponent("model.onnx").path
        session = try ORTSession(env: environment, modelPath: model, sessionOptions: options)
        try swap([UInt8](try file("prototypes.cbor")))
    }

    /// Classify by these from the next call on; what does not fit is a BundleError, and nothing changes.
    func swap(_ message: [UInt8]) throws {
        let bank = try readPublished(message)
        try must(manifest.lineages.contains(bank.about.lineage), "these prototypes are of another lineage")
        let points = try ready(bank, reading, embedding: manifest.embedding)
        let cut = threshold(seen, embedding: manifest.embedding, keep: manifest.unknown.keep, points)
        lock.withLock { inUse = InUse(points: points, cut: cut) }
    }

    /// One sample as the network takes it: bytes of an image (`fromPhoto`).
    func classify(_ image: [UInt8]) throws -> Answer {
        try look(NSMutableData(bytes: image, length: image.count), .uInt8, count: image.count)
    }

    /// ... or the floats of a vector or a series.
    func classify(_ sample: [Float]) throws -> Answer {
        try look(data(sample), .float, count: sample.count)
    }

    private func look(_ sample: NSMutableData, _ type: ORTTensorElementDataType, count: Int) throws -> Answer {
        try must(count == shape.reduce(1, *), "a sample of another size")
        let now = lock.withLock { inUse! }  // once: what comes meanwhile is the next call's
        let points = now.points
        // A value does not copy: it keeps the mutable data that it is made of.
        let value = { (data: NSMutableData, type: ORTTensorElementDataType, sizes: [Int]) in
            try ORTValue(tensorData: data, elementType: type, shape: sizes.map { NSNumber(value: $0) })
        }
        var inputs = [
            "image": try value(sample, type, [1] + shape),
            "proto_w": try value(data(points.w), .float, [points.width, points.b.count]),
            "proto_b": try value(data(points.b), .float, [points.b.count]),
        ]
        if let c = points.c { inputs["proto_c"] = try value(data(c), .float, [c.count]) }
        let out = try session.run(withInputs: inputs, outputNames: ["score", "feature"], runOptions: nil)
        let row = { (name: String) in
            guard let tensor = out[name] else { throw BundleError(words: "the graph gives no \(name)") }
            return floats(try tensor.tensorData() as Data)
        }
        return judged(score: try row("score"), feature: try row("feature"), points, cut: now.cut)
    }
}

private func data(_ numbers: [Float]) -> NSMutableData {
    numbers.withUnsafeBytes { NSMutableData(bytes: $0.baseAddress, length: $0.count) }
}

func floats(_ data: Data) -> [Float] {
    var numbers = [Float](repeating: 0, count: data.count / 4)
    _ = numbers.withUnsafeMutableBytes { data.copyBytes(to: $0) }
    return numbers
}
