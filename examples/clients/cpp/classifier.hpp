// A bundle's folder in use by onnxruntime: new prototypes are one call, and an answer is of the old
// ones or of the new ones. Any number of threads may classify while another swaps.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <memory>

#include "protofleet.hpp"

namespace protofleet {

inline Bytes file(const std::string& path, bool due = true) {
    std::ifstream in(path, std::ios::binary);
    must(in.good() || !due, "a file is missing");
    return Bytes(std::istreambuf_iterator<char>(in), {});
}

class Classifier {
  public:
    explicit Classifier(const std::string& bundle)
        : manifest_(nlohmann::json::parse(file(bundle + "/manifest.json"))),
          session_(env_, model(bundle).c_str(), options()) {
        must(manifest_.at("schema") == "protofleet-bundle/1", "the schema is not known here");
        // An int8 graph sees everything a little elsewhere, and `drift.npz` says by how much.
        must(!manifest_.at("files").contains("drift.npz"), "take a bundle of fp32 or fp16");
        const auto& by = manifest_.at("reading");
        reading_ = {by.at("by"), by.value("metric", "euclidean"), false};
        reading_.plain = reading_.by == "prototypes" && reading_.metric == "euclidean" &&
                         !by.value("of_unit", false) && by.value("through", "").empty();
        shape_ = manifest_.at("input").at("shape").get<std::vector<int64_t>>();
        embedding_ = manifest_.at("embedding");
        const Bytes seen = file(bundle + "/seen.f32", false);
        seen_.resize(seen.size() / 4);
        std::memcpy(seen_.data(), seen.data(), seen_.size() * 4);
        swap(file(bundle + "/prototypes.cbor"));
    }

    const std::vector<int64_t>& shape() const { return shape_; }

    // Classify by these from the next call on; what does not fit is an Error, and nothing changes.
    void swap(const Bytes& message) {
        const Bank bank = read_published(message);
        const auto lineages = manifest_.at("lineages").get<std::vector<std::string>>();
        must(std::count(lineages.begin(), lineages.end(), bank.lineage) > 0, "these prototypes are of another lineage");
        auto made = std::make_shared<InUse>();
        made->points = ready(bank, reading_, embedding_);
        made->cut = threshold(seen_, embedding_, manifest_.at("unknown").at("keep"), made->points);
        std::atomic_store(&in_use_, std::shared_ptr<const InUse>(made));
    }

    // One sample as the network takes it: bytes of an image (`from_photo`).
    Answer classify(const Bytes& image) { return look(image.data(), image.size()); }
    // ... or the floats of a vector or a series.
    Answer classify(const std::vector<float>& sample) { return look(sample.data(), sample.size()); }

  private:
    struct InUse {
        Ready points;
        std::optional<double> cut;
    };

    nlohmann::json manifest_;
    Ort::Env env_;
    Ort::Session session_;
    Reading reading_;
    std::vector<int64_t> shape_;
    size_t embedding_ = 0;
    std::vector<float> seen_;
    std::shared_ptr<const InUse> in_use_;

    // Where a path is of wide characters (Windows) the runtime wants one of those.
    static std::basic_string<ORTCHAR_T> model(const std::string& bundle) {
        const std::string path = bundle + "/model.onnx";
        return std::basic_string<ORTCHAR_T>(path.begin(), path.end());
    }

    static Ort::SessionOptions options() {
        Ort::SessionOptions options;
        options.SetIntraOpNumThreads(1);
        return options;
    }

    template <typename T>
    Answer look(const T* sample, size_t size) {
        const auto now = std::atomic_load(&in_use_);  // once: what comes meanwhile is the next call's
        std::vector<int64_t> shape{1};
        shape.insert(shape.end(), shape_.begin(), shape_.end());
        int64_t due = 1;
        for (int64_t side : shape) due *= side;
        must(int64_t(size) == due, "a sample of another size");
        const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
        const auto tensor = [&](const auto* data, size_t n, const std::vector<int64_t>& of) {
            using Number = std::remove_const_t<std::remove_pointer_t<decltype(data)>>;
            // The runtime reads inputs only; its interface has one type for both ways.
            return Ort::Value::CreateTensor<Number>(memory, const_cast<Number*>(data), n, of.data(), of.size());
        };
        const Ready& points = now->points;
        std::vector<Ort::Value> in;
        in.push_back(tensor(sample, size, shape));
        in.push_back(tensor(points.w.data(), points.w.size(), {int64_t(points.width), int64_t(points.rows)}));
        in.push_back(tensor(points.b.data(), points.b.size(), {int64_t(points.rows)}));
        if (!points.c.empty()) in.push_back(tensor(points.c.data(), points.c.size(), {int64_t(points.c.size())}));
        const char* names[]{"image", "proto_w", "proto_b", "proto_c"};
        const char* wanted[]{"score", "feature"};
        const auto out = session_.Run(Ort::RunOptions{}, names, in.data(), in.size(), wanted, 2);
        return judged(out[0].GetTensorData<float>(), out[1].GetTensorData<float>(), embedding_, points, now->cut);
    }
};

}  // namespace protofleet
