// Prints what the reader of C++ makes of a recording, as tests/dumping.py says. It judges nothing.
//
//     dump [--skip] DIRECTORY

#include <gym_recording.hpp>

#include <cstdio>
#include <cstring>
#include <string>

using namespace gym_recording;

namespace {

std::string out;

void hex(unsigned char const* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        out += "0123456789abcdef"[data[i] >> 4];
        out += "0123456789abcdef"[data[i] & 15];
    }
}

// Text is UTF-8, in which half a surrogate pair may stand: in JSON, that is an escape.
void text(std::string const& s) {
    out += '"';
    for (std::size_t i = 0; i < s.size(); ++i) {
        auto c = static_cast<unsigned char>(s[i]);
        char escape[8];
        if (c == 0xED && i + 2 < s.size() && static_cast<unsigned char>(s[i + 1]) >= 0xA0) {
            unsigned code = 0xD000U | (static_cast<unsigned char>(s[i + 1]) & 63U) << 6 | (static_cast<unsigned char>(s[i + 2]) & 63U);
            std::snprintf(escape, sizeof escape, "\\u%04x", code);
            out += escape;
            i += 2;
        } else if (c < 0x20 || c == '"' || c == '\\') {
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            out += escape;
        } else {
            out += s[i];
        }
    }
    out += '"';
}

void print(array const& a) {
    static_assert(sizeof(bool) == 1);
    auto const flags = a.dtype().kind == 'b' ? std::optional(a.as<bool>()) : std::nullopt;
    auto const all = a.bytes();
    auto const* data = flags ? reinterpret_cast<unsigned char const*>(flags->data()) : all.data();
    std::size_t size = all.size();
    std::string code = a.dtype().code();
    std::size_t unit = a.dtype().kind == 'U' ? 4 : a.dtype().kind == 'S' ? 1 : 0;
    if (unit != 0 && a.shape().empty()) {  // text without dimensions loses the NULs at its end
        while (size > 0 && data[size - 1] == 0) --size;
        size = size == 0 ? unit : (size + unit - 1) / unit * unit;
        code = code.substr(0, 2) + std::to_string(size / unit);
    }
    out += "{\"array\": {\"dtype\": ";
    text(code);
    if (!a.dtype().view.empty()) {
        out += ", \"view\": ";
        text(a.dtype().view);
    }
    out += ", \"shape\": [";
    for (std::size_t i = 0; i < a.shape().size(); ++i) out += (i ? ", " : "") + std::to_string(a.shape()[i]);
    out += "], \"hex\": \"";
    hex(data, size);
    out += "\"}}";
}

void print(value const& v);

void print_all(char const* name, std::vector<value> const& items) {
    out += std::string("{\"") + name + "\": [";
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i) out += ", ";
        print(items[i]);
    }
    out += "]}";
}

void print(value const& v) {
    switch (v.type()) {
        case value::kind::null: out += "{\"null\": true}"; break;
        case value::kind::boolean: out += v.boolean() ? "{\"bool\": true}" : "{\"bool\": false}"; break;
        case value::kind::integer:
        case value::kind::big_integer: out += "{\"int\": \"" + v.digits() + "\"}"; break;
        case value::kind::real: {
            double number = v.real();
            unsigned char bytes[8];
            std::memcpy(bytes, &number, 8);
            out += "{\"float\": \"";
            hex(bytes, 8);
            out += "\"}";
            break;
        }
        case value::kind::text:
            out += "{\"text\": ";
            text(v.text());
            out += "}";
            break;
        case value::kind::array: print(v.array()); break;
        case value::kind::list: print_all("list", v.items()); break;
        case value::kind::tuple: print_all("tuple", v.items()); break;
        case value::kind::dict: {
            out += "{\"dict\": [";
            bool first = true;
            for (auto const& [key, item] : v.members()) {
                out += first ? "[" : ", [";
                first = false;
                print(key);
                out += ", ";
                print(item);
                out += "]";
            }
            out += "]}";
            break;
        }
    }
}

template <class T, class Print>
void print(char const* name, std::optional<T> const& item, Print how) {
    out += std::string(", \"") + name + "\": ";
    if (item) {
        how(*item);
    } else {
        out += "null";
    }
}

void print(episode const& e) {
    auto boolean = [](bool b) { out += b ? "true" : "false"; };
    auto any = [](value const& v) { print(v); };
    out += "{\"observations\": ";
    print(e.observations);
    out += ", \"actions\": ";
    print(e.actions);
    out += ", \"rewards\": ";
    print(e.rewards);
    print("terminated", e.terminated, boolean);
    print("truncated", e.truncated, boolean);
    print("ended_by", e.ended_by, text);
    print("seed", e.seed, [](value const& v) { out += "\"" + v.digits() + "\""; });
    print("options", e.options && e.options->is_null() ? std::nullopt : e.options, any);
    print("started", e.started, text);
    print("lane", e.lane, [](std::int64_t n) { out += std::to_string(n); });
    print("headless", std::optional<bool>(e.headless), boolean);
    print("gaps", std::optional<std::vector<std::int64_t>>(e.gaps), [](auto const& gaps) {
        out += "[";
        for (std::size_t i = 0; i < gaps.size(); ++i) out += (i ? ", " : "") + std::to_string(gaps[i]);
        out += "]";
    });
    print("timestamps", e.timestamps, any);
    print("infos", e.infos, [&](auto const&) {
        out += "[";
        for (std::uint64_t t = 0; t < e.observations.rows(); ++t) {
            if (t) out += ", ";
            print(e.info(t));
        }
        out += "]";
    });
    print("frames", e.frames, any);
    out += "}";
}

}  // namespace

int main(int count, char** arguments) {
    options how;
    how.skip = count == 3 && std::string(arguments[1]) == "--skip";
    if (count != (how.skip ? 3 : 2)) {
        std::fputs("usage: dump [--skip] DIRECTORY\n", stderr);
        return 2;
    }
    try {
        reader recording(arguments[count - 1], how);
        out = "{\"episodes\": [";
        bool first = true;
        for (episode const& e : recording) {
            if (!first) out += ", ";
            first = false;
            print(e);
        }
        out += "], \"errors\": [";
        for (std::size_t i = 0; i < recording.errors().size(); ++i) {
            if (i) out += ", ";
            text(recording.errors()[i].what());
        }
        out += "]}\n";
    } catch (error const& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
    return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
