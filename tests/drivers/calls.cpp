// Uses every call of the reader of C++ on the recording that tests/test_readers.py makes, and prints what it gets.

#include <gym_recording.hpp>

#include <iostream>

using namespace gym_recording;

template <class T>
void print(char const* name, span<T> items) {
    std::cout << name << ':';
    for (auto item : items) std::cout << ' ' << +item;
    std::cout << '\n';
}

template <class Call>
void refused(Call call) {
    try {
        call();
        std::cout << "not refused\n";
    } catch (error const& problem) {
        std::cout << problem.what() << '\n';
    }
}

int main(int, char** arguments) {
    std::optional<reader> recording(std::in_place, arguments[1]);
    std::cout << recording->size() << " episodes of " << recording->traces().size() << " trace, ";
    trace const& t = recording->traces().at(0);
    std::cout << t.batches.size() << " batch, " << (t.closed ? "closed" : "open") << ", " << *t.metadata.find("a")->get<std::int64_t>() << '\n';
    episode e = (*recording)[1];
    episode const first = *recording->begin();
    refused([&] { (*recording)[2]; });
    recording.reset();  // what was read stays valid

    value const& o = e.observations;
    print("uint8", o["image"].as<std::uint8_t>());
    std::cout << "shape:";
    for (auto length : o["image"].shape()) std::cout << ' ' << length;
    std::cout << '\n';
    print("float16", o["half"].as<float16>());
    print("bool", o["flag"].as<bool>());
    std::cout << "complex:";
    for (auto number : o["complex"].as<std::complex<double>>()) std::cout << ' ' << number;
    std::cout << "\ntexts:";
    for (auto const& text : o["texts"].array().texts()) std::cout << " [" << text << ']';
    std::cout << "\nfields:";
    for (field const& f : o["point"].array().dtype().fields) std::cout << ' ' << f.name << '@' << f.offset << ' ' << f.type.code();
    std::cout << '\n';
    print("row 1", o.row(1)["image"].as<std::uint8_t>());
    std::cout << "loose: " << o["loose"][0].text() << ' ' << o["loose"][1][0].integer() << ' ' << o["loose"][2].digits() << ' '
              << o["loose"].row(1)[1].real() << ' ' << o["loose"].rows() << '\n';
    print("actions[0]", e.actions[0].as<std::int64_t>());
    print("rewards", e.rewards.as<float>());
    std::cout << "T: " << e.size() << ", first: " << first.size() << ", seed: " << e.seed->digits() << ", ended by " << *e.ended_by
              << ", options: " << (*e.options)["x"].boolean() << '\n';
    print("info 1", e.info(1)["n"].as<std::int64_t>());
    std::cout << "infos: " << e.info(0).members().size() << ' ' << e.info(1).members().size() << '\n';
    print("no rewards", first.rewards.as<float>());

    refused([&] { o["image"].as<std::int8_t>(); });
    refused([&] { o["absent"]; });
    refused([&] { o.row(9); });
    refused([&] { e.rewards["x"]; });
    refused([&] { e.actions[5]; });
    refused([&] { e.rewards.array().texts(); });
}
