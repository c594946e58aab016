// Answers a conformance folder: `conformance FOLDER > answers.json`, for `protofleet conformance
// check FOLDER answers.json`.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "classifier.hpp"

using namespace protofleet;

int main(int, char** words) {
    const std::string folder = std::string(words[1]) + "/";
    const auto expected = nlohmann::json::parse(file(folder + "expected.json"));
    Classifier classifier(folder + "bundle");
    nlohmann::json states = nlohmann::json::array(), refused = nlohmann::json::array();
    for (const auto& state : expected["states"]) {
        classifier.swap(file(folder + state["file"].get<std::string>()));
        nlohmann::json answers = nlohmann::json::array();
        for (const auto& input : expected["inputs"]) {
            const Bytes raw = file(folder + input["file"].get<std::string>());
            Answer answer;
            if (input["kind"] == "photo") {
                int width = 0, height = 0, read = 0;
                const std::string head(raw.begin(), raw.begin() + std::min<size_t>(raw.size(), 32));
                std::sscanf(head.c_str(), "P6 %d %d 255%n", &width, &height, &read);
                const Bytes rgb(raw.begin() + read + 1, raw.end());
                answer = classifier.classify(from_photo(rgb, height, width, classifier.shape()));
            } else {
                std::vector<float> sample(raw.size() / 4);
                std::memcpy(sample.data(), raw.data(), raw.size());
                answer = classifier.classify(sample);
            }
            nlohmann::json one{{"label", nullptr}, {"scores", answer.scores}, {"probabilities", nullptr}, {"unknown", nullptr}};
            if (!answer.label.empty()) one["label"] = answer.label;
            if (answer.probabilities) one["probabilities"] = *answer.probabilities;
            if (answer.unknown) one["unknown"] = *answer.unknown;
            answers.push_back(one);
        }
        states.push_back({{"answers", answers}});
    }
    for (const auto& name : expected["refused"]) {
        try {
            classifier.swap(file(folder + name.get<std::string>()));
            refused.push_back("");
        } catch (const Error& error) {
            refused.push_back(error.what());
        }
    }
    std::cout << nlohmann::json{{"states", states}, {"refused", refused}} << std::endl;
}
