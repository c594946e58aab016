// Answers a conformance folder, for `protofleet conformance check`: call it from a test of your app with
// a folder in its resources, or from a program for macOS.
import Foundation

struct Expected: Decodable {
    struct Input: Decodable { let file, kind: String }
    struct State: Decodable { let file: String }

    let inputs: [Input]
    let states: [State]
    let refused: [String]
}

func answered(folder: URL) throws -> Data {
    let bytes = { (name: String) in [UInt8](try Data(contentsOf: folder.appendingPathComponent(name))) }
    let expected = try JSONDecoder().decode(Expected.self, from: Data(try bytes("expected.json")))
    let classifier = try Classifier(bundle: folder.appendingPathComponent("bundle"))
    var states = [[String: Any]]()
    for state in expected.states {
        try classifier.swap(try bytes(state.file))
        let answers = try expected.inputs.map { input -> [String: Any] in
            let raw = try bytes(input.file)
            return plain(input.kind == "photo" ? try photo(raw, classifier) : try classifier.classify(floats(Data(raw))))
        }
        states.append(["answers": answers])
    }
    let refused = expected.refused.map { name -> String in
        do {
            try classifier.swap(try bytes(name))
            return ""
        } catch {
            return (error as? BundleError)?.words ?? "\(error)"
        }
    }
    return try JSONSerialization.data(withJSONObject: ["states": states, "refused": refused])
}

private func photo(_ ppm: [UInt8], _ classifier: Classifier) throws -> Answer {
    let head = String(decoding: ppm.prefix(32), as: UTF8.self).split(whereSeparator: { $0.isWhitespace }).prefix(4)
    let skip = head.reduce(0) { $0 + $1.utf8.count + 1 }  // each followed by one blank
    let (width, height) = (Int(head[1])!, Int(head[2])!)
    let pixels = try fromPhoto(Array(ppm[skip...]), height: height, width: width, shape: classifier.shape)
    return try classifier.classify(pixels)
}

private func plain(_ answer: Answer) -> [String: Any] {
    [
        "label": answer.label ?? NSNull(), "scores": answer.scores,
        "probabilities": answer.probabilities ?? NSNull(), "unknown": answer.unknown ?? NSNull(),
    ]
}
