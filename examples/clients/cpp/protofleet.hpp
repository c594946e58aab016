// A bundle's client but for the runtime, to copy into your program: photos to the network's size,
// what a fleet publishes, how sure an answer is, and what is unknown. C++17 and nlohmann/json; the
// formats are in docs/bundle.md and docs/wire.md. `protofleet conformance` holds it to Python.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace protofleet {

using Bytes = std::vector<uint8_t>;

struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void must(bool holds, const char* words) {
    if (!holds) throw Error(words);
}

// ---- photos ------------------------------------------------------------------------------------

// One axis of Pillow's BILINEAR: each place is a mean over a triangle, twice as wide as what it
// stands for. What looks at the nearest pixels alone (plain bilinear) costs points.
inline Bytes along(const Bytes& in, int from, int to, int lines, int line, int step, int to_line,
                   int to_step, int channels) {
    if (from == to) return in;
    Bytes out(size_t(lines) * to * channels);
    const double scale = double(from) / to, support = std::max(scale, 1.0);
    for (int place = 0; place < to; place++) {
        const double centre = (place + 0.5) * scale;
        const int first = std::max(0, int(centre - support + 0.5));
        const int end = std::min(from, int(centre + support + 0.5));
        std::vector<double> share(end - first);
        for (int x = first; x < end; x++) {
            share[x - first] = std::max(0.0, 1 - std::abs((x - centre + 0.5) / support));
        }
        const double sum = std::accumulate(share.begin(), share.end(), 0.0);
        std::vector<int32_t> weights;  // whole numbers of 2^-22
        for (double s : share) weights.push_back(int32_t(0.5 + s / sum * (1 << 22)));
        for (int n = 0; n < lines; n++) {
            for (int c = 0; c < channels; c++) {
                int64_t total = 1 << 21;
                size_t at = size_t(n) * line + size_t(first) * step + c;
                for (size_t i = 0; i < weights.size(); i++, at += step) total += in[at] * int64_t(weights[i]);
                out[size_t(n) * to_line + size_t(place) * to_step + c] = uint8_t(total >> 22);
            }
        }
    }
    return out;
}

// height × width × channels at another size: rows first, rounded, then columns.
inline Bytes resized(const Bytes& pixels, int height, int width, int channels, int to_height, int to_width) {
    const int row = width * channels, to_row = to_width * channels;
    const Bytes narrow = along(pixels, width, to_width, height, row, channels, to_row, channels, channels);
    return along(narrow, height, to_height, to_width, channels, to_row, channels, to_row, channels);
}

// An upright RGB photo as the network takes it; grey is made as Pillow makes it.
inline Bytes from_photo(const Bytes& rgb, int height, int width, const std::vector<int64_t>& shape) {
    must(shape.size() == 3 && (shape[2] == 1 || shape[2] == 3), "an image of 1 or 3 channels is due");
    const int channels = int(shape[2]);
    Bytes pixels = rgb;
    if (channels == 1) {
        pixels.resize(size_t(height) * width);
        for (size_t i = 0; i < pixels.size(); i++) {
            const uint8_t* p = &rgb[3 * i];
            pixels[i] = uint8_t((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
        }
    }
    return resized(pixels, height, width, channels, int(shape[0]), int(shape[1]));
}

// ---- the fleet's CBOR --------------------------------------------------------------------------

struct Value {
    enum Kind { none, whole, negative, bytes, text, list, map, tagged, logical, real } kind = none;
    uint64_t number = 0;  // a whole number, a tag
    double decimal = 0;
    bool holds = false;
    const uint8_t* data = nullptr;  // bytes of the message, which outlives its values
    size_t size = 0;
    std::vector<Value> items;  // of a list; of a tag the one
    std::vector<std::pair<std::string, Value>> entries;

    std::string words() const { return std::string(reinterpret_cast<const char*>(data), size); }
    const Value* at(const std::string& key) const {
        for (const auto& entry : entries) {
            if (entry.first == key) return &entry.second;
        }
        return nullptr;
    }
};

inline double half(uint16_t bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    must(exponent != 31, "a number is not finite");
    const double size = exponent ? std::ldexp(1 + fraction / 1024.0, exponent - 15) : std::ldexp(fraction / 1024.0, -14);
    return bits & 0x8000 ? -size : size;
}

class Decoder {
  public:
    Decoder(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    Value whole() {
        Value value = next(0);
        must(at_ == size_, "the message has bytes to spare");
        return value;
    }

  private:
    const uint8_t* data_;
    size_t size_, at_ = 0;

    const uint8_t* take(uint64_t n) {
        must(n <= size_ - at_, "the message is cut short");
        at_ += size_t(n);
        return data_ + at_ - n;
    }

    uint64_t big_endian(int width) {
        const uint8_t* from = take(width);
        uint64_t number = 0;
        for (int i = 0; i < width; i++) number = number << 8 | from[i];
        return number;
    }

    Value next(int depth) {
        must(depth <= 16, "the message is nested too deep");
        const int head = *take(1), major = head >> 5, info = head & 31;
        must(info < 28, "the message is not of the known form");
        Value value;
        if (major == 7) {
            if (info == 20 || info == 21) {
                value.kind = Value::logical;
                value.holds = info == 21;
            } else if (info >= 25) {
                value.kind = Value::real;
                const uint64_t bits = big_endian(1 << (info - 24));
                const uint32_t low = uint32_t(bits);
                float single;
                std::memcpy(&single, &low, 4);
                std::memcpy(&value.decimal, &bits, 8);
                if (info == 25) value.decimal = half(uint16_t(bits));
                if (info == 26) value.decimal = single;
            } else {
                must(info == 22, "the message is not of the known form");
            }
            return value;
        }
        value.number = info < 24 ? info : big_endian(1 << (info - 24));
        if (major == 0 || major == 1) {
            value.kind = major ? Value::negative : Value::whole;
        } else if (major == 2 || major == 3) {
            value.kind = major == 2 ? Value::bytes : Value::text;
            value.data = take(value.number);
            value.size = size_t(value.number);
        } else if (major == 6) {
            value.kind = Value::tagged;
            value.items.push_back(next(depth + 1));
        } else {
            must(value.number <= size_, "the message is cut short");
            value.kind = major == 4 ? Value::list : Value::map;
            std::set<std::string> keys;
            for (uint64_t i = 0; i < value.number; i++) {
                Value item = next(depth + 1);
                if (major == 4) {
                    value.items.push_back(std::move(item));
                    continue;
                }
                must(item.kind == Value::text, "the message is not of the known form");
                must(keys.insert(item.words()).second, "a key stands twice");
                value.entries.emplace_back(item.words(), next(depth + 1));
            }
        }
        return value;
    }
};

struct Array {
    std::vector<size_t> shape;
    std::vector<double> data;
};

// A typed array of RFC 8746, or int8 rows with their scales.
inline Array array(const Value* raw) {
    must(raw != nullptr, "an array is missing");
    if (raw->kind == Value::map) {
        Array rows = array(raw->at("q"));
        const Array scales = array(raw->at("s"));
        must(rows.shape.size() == 2 && scales.data.size() == rows.shape[0], "an array is not of the known form");
        for (size_t i = 0; i < rows.data.size(); i++) rows.data[i] *= scales.data[i / rows.shape[1]];
        return rows;
    }
    Array result;
    const Value* typed = raw;
    const bool shaped = raw->kind == Value::tagged && raw->number == 40;
    if (shaped) {
        const Value& pair = raw->items[0];
        must(pair.kind == Value::list && pair.items.size() == 2, "an array is not of the known form");
        must(pair.items[0].kind == Value::list, "an array is not of the known form");
        for (const Value& side : pair.items[0].items) {
            must(side.kind == Value::whole, "an array is not of the known form");
            result.shape.push_back(size_t(side.number));
        }
        typed = &pair.items[1];
    }
    static const std::map<uint64_t, size_t> widths{{64, 1}, {72, 1}, {79, 8}, {84, 2}, {85, 4}};
    must(typed->kind == Value::tagged && widths.count(typed->number), "an array is not of the known form");
    const Value& held = typed->items[0];
    const size_t width = widths.at(typed->number);
    must(held.kind == Value::bytes && held.size % width == 0, "an array is not of the known form");
    for (size_t at = 0; at < held.size; at += width) {
        uint64_t bits = 0;  // little-endian, whatever this machine is
        for (size_t i = width; i-- > 0;) bits = bits << 8 | held.data[at + i];
        double number = double(bits);
        if (typed->number == 72) number = int8_t(bits);
        if (typed->number == 79) number = double(int64_t(bits));
        if (typed->number == 84) number = half(uint16_t(bits));
        if (typed->number == 85) {
            const uint32_t low = uint32_t(bits);
            float single;
            std::memcpy(&single, &low, 4);
            number = single;
        }
        must(std::isfinite(number), "a number is not finite");
        result.data.push_back(number);
    }
    if (!shaped) result.shape = {result.data.size()};
    double all = 1;
    for (size_t side : result.shape) all *= double(side);
    must(all == double(result.data.size()), "an array's sizes do not fit its values");
    return result;
}

// ---- what a fleet publishes --------------------------------------------------------------------

struct Sure {
    double temperature = 1;
    std::vector<double> confidences, probabilities;
    std::optional<std::pair<double, double>> usual;
};

struct Bank {
    std::string kind, lineage;
    std::vector<std::string> classes;
    std::vector<int> rows;  // the class of each row
    std::map<std::string, Array> points;
    std::optional<Sure> sure;
};

inline Sure sure_of(const nlohmann::json& raw) {
    const char* wrong = "the calibration contradicts itself";
    Sure sure;
    sure.temperature = raw.at("temperature").get<double>();
    sure.confidences = raw.value("confidences", std::vector<double>{});
    sure.probabilities = raw.value("probabilities", std::vector<double>{});
    if (raw.contains("usual") && !raw["usual"].is_null()) {
        const auto ends = raw["usual"].get<std::vector<double>>();
        must(ends.size() == 2 && ends[0] <= ends[1], wrong);
        sure.usual = {ends[0], ends[1]};
    }
    const auto rising = [](const std::vector<double>& all) {
        return std::is_sorted(all.begin(), all.end()) && (all.empty() || (all.front() >= 0 && all.back() <= 1));
    };
    must(sure.temperature >= std::ldexp(1.0, -20) && std::isfinite(sure.temperature), wrong);
    must(sure.confidences.size() == sure.probabilities.size(), wrong);
    must(rising(sure.confidences) && rising(sure.probabilities), wrong);
    return sure;
}

// Class names, lineage and points of a message, or an Error.
inline Bank read_published(const Bytes& message) {
    const char* none = "these bytes are no published prototypes";
    must(message.size() <= size_t(64) << 20, "the message is too long");
    const Value whole = Decoder(message.data(), message.size()).whole();
    const Value *v = whole.at("v"), *t = whole.at("t"), *body = whole.at("body");
    must(v && v->kind == Value::whole && v->number == 1 && t && t->kind == Value::text && t->words() == "global", none);
    must(body && body->kind == Value::tagged && body->number == 24 && body->items[0].kind == Value::bytes, none);
    const Value parts = Decoder(body->items[0].data, body->items[0].size).whole();
    const Value* about = parts.at("about");
    const Value* held = about ? about->at("arrays") : nullptr;
    must(held && held->at("json"), "the published prototypes do not say what they are");
    const Array text = array(held->at("json"));
    Bank bank;
    try {
        const auto document = nlohmann::json::parse(Bytes(text.data.begin(), text.data.end()));
        bank.lineage = document.at("lineage").get<std::string>();
        bank.classes = document.at("classes").get<std::vector<std::string>>();
        if (document.contains("calibration") && !document["calibration"].is_null()) {
            bank.sure = sure_of(document["calibration"]);
        }
    } catch (const nlohmann::json::exception&) {
        throw Error("the published prototypes do not say what they are");
    }
    const std::set<std::string> names(bank.classes.begin(), bank.classes.end());
    must(names.size() == bank.classes.size() && !names.count(""), "class names that differ are due");
    for (const char* kind : {"prototypes", "mixtures", "head"}) {
        const Value* part = parts.at(kind);
        if (!part) continue;
        bank.kind = kind;
        for (const auto& [name, raw] : part->entries) {
            if (name != "kind") bank.points[name] = array(&raw);
        }
    }
    must(!bank.kind.empty() && bank.points.count("classes"), "the published prototypes do not say what they are");
    for (double c : bank.points["classes"].data) {
        must(c >= 0 && c < double(bank.classes.size()), "a prototype is of no class");
        must(bank.rows.empty() || c >= bank.rows.back(), "prototypes in the order of their classes are due");
        bank.rows.push_back(int(c));
    }
    return bank;
}

// ---- points as the graph's inputs --------------------------------------------------------------

struct Reading {
    std::string by, metric;
    bool plain;  // the feature as it is: what a head of sums reads
};

struct Ready {
    Bank bank;
    std::vector<float> w, b, c;       // w is width × rows; c of mixtures alone
    size_t width = 0, rows = 0;       // of w
    std::vector<int> present;         // the classes that have points
    std::vector<std::string> labels;  // and what they are called
};

inline const Array& matrix(const Bank& bank, const char* name, size_t columns) {
    const auto found = bank.points.find(name);
    must(found != bank.points.end(), "an array is missing");
    const Array& array = found->second;
    must(array.shape.size() == (columns ? 2 : 1) && array.shape[0] == bank.rows.size(), "these points have another size");
    must(!columns || array.shape[1] == columns, "these points have another size");
    return array;
}

// `embedding` is the manifest's: how long a feature is.
inline Ready ready(const Bank& bank, const Reading& reading, size_t embedding) {
    must(bank.kind == reading.by || (bank.kind == "head" && reading.plain), "this bundle classifies otherwise");
    Ready made;
    made.bank = bank;
    const size_t n = bank.rows.size(), d = embedding;
    made.rows = n;
    made.width = bank.kind == "mixtures" ? 2 * d : d;
    made.w.resize(made.width * n);
    made.b.resize(n);
    if (bank.kind == "prototypes") {
        const Array& vectors = matrix(bank, "vectors", d);
        for (size_t p = 0; p < n; p++) {
            double square = 0;
            for (size_t i = 0; i < d; i++) square += vectors.data[p * d + i] * vectors.data[p * d + i];
            const bool cosine = reading.metric == "cosine";
            const double scale = cosine ? 1 / std::max(std::sqrt(square), 1e-12) : 1;
            for (size_t i = 0; i < d; i++) made.w[i * n + p] = float(2 * vectors.data[p * d + i] * scale);
            made.b[p] = cosine ? -1 : float(-square);
        }
    } else if (bank.kind == "head") {
        const Array &weight = matrix(bank, "weight", d), &bias = matrix(bank, "bias", 0);
        for (size_t p = 0; p < n; p++) {
            for (size_t i = 0; i < d; i++) made.w[i * n + p] = float(weight.data[p * d + i]);
            made.b[p] = float(bias.data[p]);
        }
    } else {
        const Array &mean = matrix(bank, "means", d), &variance = matrix(bank, "variances", d);
        const Array& weight = matrix(bank, "weights", 0);
        made.c.resize(d);
        for (size_t i = 0; i < d && n; i++) {
            double sum = 0;
            for (size_t p = 0; p < n; p++) sum += mean.data[p * d + i];
            made.c[i] = float(sum / n);
        }
        for (size_t p = 0; p < n; p++) {
            double constant = std::max(std::log(weight.data[p]), -1e30);
            for (size_t i = 0; i < d; i++) {
                const double m = mean.data[p * d + i] - made.c[i], precision = 1 / variance.data[p * d + i];
                made.w[i * n + p] = float(-0.5 * precision);
                made.w[(d + i) * n + p] = float(m * precision);
                constant += 0.5 * std::log(precision / (2 * 3.14159265358979323846)) - 0.5 * m * m * precision;
            }
            made.b[p] = float(constant);
        }
    }
    for (const auto* numbers : {&made.w, &made.b, &made.c}) {
        for (float v : *numbers) must(std::abs(v) <= 1e30f, "points so large that no score of them is a number");
    }
    for (int c : bank.rows) {
        if (!made.present.empty() && made.present.back() == c) continue;
        made.present.push_back(c);
        made.labels.push_back(bank.classes[c]);
    }
    return made;
}

// ---- answers -----------------------------------------------------------------------------------

struct Answer {
    std::string label;  // of the likeliest class, also of what is unknown; empty while no class is known
    std::vector<double> scores;
    std::optional<std::vector<double>> probabilities;  // where the fleet calibrated these scores
    std::optional<bool> unknown;                       // where there is something to tell it by
};

// What the graph's last step makes of a feature, in double precision.
inline std::vector<double> linear(const float* feature, const Ready& points) {
    std::vector<double> score(points.b.begin(), points.b.end());
    const size_t d = points.c.empty() ? points.width : points.width / 2;
    for (size_t i = 0; i < d; i++) {
        const double v = points.c.empty() ? feature[i] : double(feature[i]) - points.c[i];
        for (size_t p = 0; p < points.rows; p++) {
            if (points.c.empty()) score[p] += v * points.w[i * points.rows + p];
            else score[p] += v * v * points.w[i * points.rows + p] + v * points.w[(d + i) * points.rows + p];
        }
    }
    return score;
}

// Of each class the best of its rows, or all its Gaussians together.
inline std::vector<double> by_class(const std::vector<double>& score, const Ready& points) {
    std::vector<double> best(points.present.size(), -std::numeric_limits<double>::infinity()), sum(best.size(), 0);
    const auto place = [&](size_t row) {
        return std::lower_bound(points.present.begin(), points.present.end(), points.bank.rows[row]) - points.present.begin();
    };
    for (size_t p = 0; p < score.size(); p++) best[place(p)] = std::max(best[place(p)], score[p]);
    if (points.bank.kind != "mixtures") return best;
    for (size_t p = 0; p < score.size(); p++) sum[place(p)] += std::exp(score[p] - best[place(p)]);
    for (size_t k = 0; k < best.size(); k++) best[k] += std::log(sum[k]);
    return best;
}

inline std::vector<double> shares(const std::vector<double>& score, const Sure& sure) {
    const size_t best = std::max_element(score.begin(), score.end()) - score.begin();
    std::vector<double> share;
    for (double s : score) share.push_back(std::exp((s - score[best]) / sure.temperature));
    const double sum = std::accumulate(share.begin(), share.end(), 0.0);
    for (double& s : share) s /= sum;
    const auto &x = sure.confidences, &y = sure.probabilities;
    if (x.empty()) return share;
    const double others = std::accumulate(share.begin(), share.end(), -share[best]);
    const size_t k = std::upper_bound(x.begin(), x.end(), share[best]) - x.begin();
    const double top = k == 0          ? y.front()
                       : k == x.size() ? y.back()
                                       : y[k - 1] + (y[k] - y[k - 1]) / (x[k] - x[k - 1]) * (share[best] - x[k - 1]);
    const double rest = (1 - top) / std::max(others, 1e-300);
    for (size_t p = 0; p < share.size(); p++) share[p] = p == best ? top : std::min(top, share[p] * rest);
    return share;
}

// How little a sample is like any class, where no fleet calibrated its scores.
inline double oddness(const std::string& kind, double square, const std::vector<double>& score) {
    const double top = *std::max_element(score.begin(), score.end());
    if (kind == "prototypes") return square - top;
    if (kind == "mixtures") return -top;
    double sum = 0;
    for (double s : score) sum += std::exp(s - top);
    return -(top + std::log(sum));
}

inline double squared(const float* feature, size_t n) {
    return std::inner_product(feature, feature + n, feature, 0.0);
}

// Above which oddness a sample is unknown: the share `keep` of a bundle's check samples (`seen.f32`,
// by `--also raw`) lies below. Nothing where there are none.
inline std::optional<double> threshold(const std::vector<float>& seen, size_t embedding, double keep, const Ready& points) {
    std::vector<double> odd;
    for (size_t at = 0; at + embedding <= seen.size() && !points.present.empty(); at += embedding) {
        const auto score = by_class(linear(&seen[at], points), points);
        odd.push_back(oddness(points.bank.kind, squared(&seen[at], embedding), score));
    }
    if (odd.empty()) return {};
    std::sort(odd.begin(), odd.end());
    const double place = keep * double(odd.size() - 1);
    const size_t below = size_t(place), above = std::min(below + 1, odd.size() - 1);
    return odd[below] + (place - double(below)) * (odd[above] - odd[below]);
}

// What a sample is, from the graph's two outputs for it; `cut` is `threshold` of these points.
inline Answer judged(const float* score, const float* feature, size_t embedding, const Ready& points,
                     std::optional<double> cut) {
    Answer answer;
    if (points.present.empty()) return answer;
    const auto& sure = points.bank.sure;
    // A calibrated head's rows are differences of large numbers: single precision would be seen.
    const bool precise = sure && points.bank.kind == "head";
    const auto mine = precise ? linear(feature, points) : std::vector<double>(score, score + points.rows);
    answer.scores = by_class(mine, points);
    const size_t best = std::max_element(answer.scores.begin(), answer.scores.end()) - answer.scores.begin();
    answer.label = points.labels[best];
    if (sure) answer.probabilities = shares(answer.scores, *sure);
    if (sure && sure->usual) {
        const double odd = -answer.scores[best];
        answer.unknown = odd < sure->usual->first || odd > sure->usual->second;
    } else if (cut) {
        answer.unknown = oddness(points.bank.kind, squared(feature, embedding), answer.scores) > *cut;
    }
    return answer;
}

}  // namespace protofleet
