// gym_recording.hpp: reads recordings of gym_recording, versions 0, 1 and 2 of the format (FORMAT.md has every byte).
//
// C++17 and POSIX; nothing else, nothing to link. `python -c "import gym_recording; print(gym_recording.get_include())"`
// prints the directory of this file: c++ -std=c++17 -I that_directory program.cpp
//
//     gym_recording::reader recording("recordings");
//     for (gym_recording::episode const& e : recording) {
//         for (double reward : e.rewards.as<double>()) ...                     // a span over the mapped file
//         auto pixels = e.observations["image"].as<std::uint8_t>();            // of Dict observations; all rows
//         auto const& shape = e.observations["image"].shape();                 // {T + 1, 64, 64, 3}
//         gym_recording::value row = e.observations.row(3);                    // the observation of one step
//     }
//
// `actions[t]` was applied to `observations[t]` and led to `rewards[t]` and `observations[t + 1]`. The main calls:
//
//     reader(directory, options)   size(), [i], begin/end: episodes; traces(), errors(), refresh()
//     episode                      observations, actions, rewards, terminated, ..., infos; size() is T
//     value                        a column of an episode, or one value: as<T>(), [key], [i], rows(), row(t), type()
//     array                        dtype, shape, as<T>(), bytes(), texts(): stays valid after the reader is gone
//     error                        the one exception: file, field, expected, found
//
// Every byte is untrusted and checked as the reader of Python does; nothing outside a file's bytes is ever read. JSON is
// parsed here, because texts with half a surrogate pair, integers of 4096 bits, 1e999 and, in old files, NaN are in
// recordings, and the known JSON libraries refuse or round them. One thread at a time may use a reader; episodes are free.

#ifndef GYM_RECORDING_HPP
#define GYM_RECORDING_HPP

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace gym_recording {

// ---- errors

/// What is missing, damaged or malformed. `what()` is one line of all that is known; unknown members are empty.
class error : public std::exception {
public:
    std::string problem, file, field, expected, found;
    bool missing = false;  ///< episodes that a trace must have are not there

    error(std::string problem_, std::string file_, std::string field_ = "", std::string expected_ = "",
          std::string found_ = "", bool missing_ = false)
        : problem(std::move(problem_)), file(std::move(file_)), field(std::move(field_)),
          expected(std::move(expected_)), found(std::move(found_)), missing(missing_) {
        compose();
    }

    char const* what() const noexcept override { return text_.c_str(); }

    /// Puts `part` in front of the field: where in the episode it was.
    void within(std::string_view part) {
        bool dot = !field.empty() && field[0] != '.' && field[0] != '[';
        field = std::string(part.substr(0, 80)) + (dot ? "." : "") + field;
        if (field.size() > 200) field.resize(200);
        compose();
    }

private:
    std::string text_;

    void compose() {
        text_ = file.empty() ? "" : file + ": ";
        if (!field.empty()) text_ += field + ": ";
        text_ += problem;
        if (!expected.empty() || !found.empty()) {
            text_ += " (" + (expected.empty() ? "" : "expected " + expected) +
                     (expected.empty() || found.empty() ? "" : ", ") + (found.empty() ? "" : "found " + found) + ")";
        }
        std::string plain;  // what a file says goes to terminals
        for (char c : text_) {
            if (c >= 0x20 && c < 0x7F) {
                plain += c;
            } else {
                auto code = static_cast<unsigned char>(c);
                plain += {'\\', 'x', "0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15]};
            }
        }
        text_ = std::move(plain);
    }
};

namespace detail {

constexpr std::size_t max_json_bytes = std::size_t(1) << 30;  // of a manifest or header
constexpr std::int64_t max_episodes = 1000000000;             // of a batch
constexpr std::size_t max_ndim = 32;
constexpr std::size_t max_dtype_text = 8192;
constexpr std::size_t max_int_bits = 4096;
constexpr int max_depth = 32;         // of containers in one value
constexpr int max_json_depth = 1000;  // what Python's parser takes; keeps the recursion here bounded
constexpr int max_literal_depth = 80; // of a structure in a dtype
constexpr std::uint64_t free_rows = 1000000;  // of an episode with infos or frames, beside those that have bytes
constexpr int listings = 4;           // a listing made while a writer renames may show a batch without the one before
constexpr std::size_t cached_headers = 8;
constexpr std::size_t cached_blobs = 16;

using bytes_view = std::string_view;

inline std::string quoted(std::string_view text) {
    return "'" + std::string(text.substr(0, 80)) + (text.size() > 80 ? "...'" : "'");
}

/// The CRC-32 of zlib, gzip and PNG. `crc` is that of the bytes before.
inline std::uint32_t crc32(bytes_view data, std::uint32_t crc = 0) {
    static auto const tables = [] {
        std::array<std::array<std::uint32_t, 256>, 8> made{};
        for (std::uint32_t n = 0; n < 256; ++n) {
            std::uint32_t c = n;
            for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? 0xEDB88320U ^ (c >> 1) : c >> 1;
            made[0][n] = c;
        }
        for (std::size_t k = 1; k < 8; ++k) {
            for (std::size_t n = 0; n < 256; ++n) made[k][n] = made[0][made[k - 1][n] & 255] ^ (made[k - 1][n] >> 8);
        }
        return made;
    }();
    crc = ~crc;
    auto const* p = reinterpret_cast<unsigned char const*>(data.data());
    std::size_t left = data.size();
    for (; left >= 8; left -= 8, p += 8) {  // eight bytes at a time: several times as fast
        crc ^= std::uint32_t(p[0]) | std::uint32_t(p[1]) << 8 | std::uint32_t(p[2]) << 16 | std::uint32_t(p[3]) << 24;
        crc = tables[7][crc & 255] ^ tables[6][(crc >> 8) & 255] ^ tables[5][(crc >> 16) & 255] ^
              tables[4][crc >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; left > 0; --left, ++p) crc = tables[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return ~crc;
}

inline std::string hex8(std::uint32_t number) {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(number));
    return text;
}

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Appends a code point as UTF-8; half a surrogate pair as the three bytes that the same rule gives.
inline void append_utf8(std::string& text, std::uint32_t code) {
    if (code < 0x80) {
        text += char(code);
    } else if (code < 0x800) {
        text += char(0xC0 | (code >> 6));
        text += char(0x80 | (code & 63));
    } else if (code < 0x10000) {
        text += char(0xE0 | (code >> 12));
        text += char(0x80 | ((code >> 6) & 63));
        text += char(0x80 | (code & 63));
    } else {
        text += char(0xF0 | (code >> 18));
        text += char(0x80 | ((code >> 12) & 63));
        text += char(0x80 | ((code >> 6) & 63));
        text += char(0x80 | (code & 63));
    }
}

inline bool is_utf8(bytes_view data) {
    auto const* p = reinterpret_cast<unsigned char const*>(data.data());
    auto const* end = p + data.size();
    while (p < end) {
        unsigned char c = *p++;
        if (c < 0x80) continue;
        int more = c >= 0xC2 && c <= 0xDF ? 1 : c >= 0xE0 && c <= 0xEF ? 2 : c >= 0xF0 && c <= 0xF4 ? 3 : 0;
        if (more == 0 || end - p < more) return false;
        unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;   // no longer form than needed
        unsigned char high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;  // no surrogate, nothing above U+10FFFF
        if (*p < low || *p > high) return false;
        for (++p; more > 1; --more, ++p) {
            if (*p < 0x80 || *p > 0xBF) return false;
        }
    }
    return true;
}

}  // namespace detail

// ---- JSON

/// An integer that 64 bits do not hold, by its decimal digits, with a minus sign where it has one.
struct big_integer {
    std::string digits;
};

/// A JSON value: of `metadata`, `env` and `writer` of a trace, and of the documents themselves.
class json {
public:
    using list = std::vector<json>;
    using object = std::vector<std::pair<std::string, json>>;
    std::variant<std::monostate, bool, std::int64_t, big_integer, double, std::string, list, object> data;

    /// What it is as a T, nullptr if it is something else: bool, std::int64_t, double, std::string, list, object.
    template <class T>
    T const* get() const {
        return std::get_if<T>(&data);
    }

    bool is_null() const { return data.index() == 0; }
    bool is_integer() const { return get<std::int64_t>() != nullptr || get<big_integer>() != nullptr; }

    /// The member of an object, nullptr if there is none.
    json const* find(std::string_view key) const {
        if (auto const* members = get<object>()) {
            for (auto const& [name, item] : *members) {
                if (name == key) return &item;
            }
        }
        return nullptr;
    }
};

namespace detail {

/// A value in an error.
inline std::string shown(json const* value) {
    struct {
        std::string operator()(std::monostate) const { return "null"; }
        std::string operator()(bool b) const { return b ? "true" : "false"; }
        std::string operator()(std::int64_t n) const { return std::to_string(n); }
        std::string operator()(big_integer const& n) const { return n.digits.substr(0, 40) + "..."; }
        std::string operator()(double d) const { return std::to_string(d).substr(0, 40); }
        std::string operator()(std::string const& s) const { return quoted(s); }
        std::string operator()(json::list const& l) const { return "a list of " + std::to_string(l.size()); }
        std::string operator()(json::object const& o) const { return "an object of " + std::to_string(o.size()); }
    } show;
    return value == nullptr ? "nothing" : std::visit(show, value->data);
}

/// Strict JSON (RFC 8259) to values; with `NaN`, `Infinity` and `-Infinity`, which versions 0 and 1 have, counted.
class json_parser {
public:
    std::string lenient;  // the first word that strict JSON does not have

    json_parser(bytes_view text, std::string const& file)
        : p_(text.data()), begin_(text.data()), end_(text.data() + text.size()), file_(file) {
        if (!is_utf8(text)) fail("not UTF-8");
    }

    json document() {
        json value = parse(0);
        space();
        if (p_ != end_) fail("more than one value");
        return value;
    }

private:
    char const* p_;
    char const* begin_;
    char const* end_;
    std::string const& file_;

    [[noreturn]] void fail(std::string const& problem) const {
        throw error("not valid JSON: " + problem + " at byte " + std::to_string(p_ - begin_), file_);
    }

    void space() {
        while (p_ != end_ && (*p_ == ' ' || *p_ == '\n' || *p_ == '\r' || *p_ == '\t')) ++p_;
    }

    bool take(char c) {
        space();
        if (p_ == end_ || *p_ != c) return false;
        ++p_;
        return true;
    }

    bool word(std::string_view text) {
        if (std::size_t(end_ - p_) < text.size() || std::string_view(p_, text.size()) != text) return false;
        p_ += text.size();
        return true;
    }

    json parse(int depth) {
        space();
        if (p_ == end_) fail("it ends too early");
        switch (*p_) {
            case '{': return json{parse_object(depth)};
            case '[': return json{parse_list(depth)};
            case '"': return json{parse_text()};
            default: break;
        }
        if (word("true")) return json{true};
        if (word("false")) return json{false};
        if (word("null")) return json{};
        for (auto const& [name, number] : {std::pair<std::string_view, double>{"NaN", std::nan("")},
                                           {"Infinity", std::numeric_limits<double>::infinity()},
                                           {"-Infinity", -std::numeric_limits<double>::infinity()}}) {
            if (word(name)) {
                if (lenient.empty()) lenient = name;
                return json{number};
            }
        }
        return parse_number();
    }

    void enter(int depth) const {
        if (depth >= max_json_depth) throw error("the JSON nests too deeply", file_);
    }

    json::list parse_list(int depth) {
        enter(depth);
        ++p_;
        json::list items;
        if (take(']')) return items;
        do {
            items.push_back(parse(depth + 1));
        } while (take(','));
        if (!take(']')) fail("expected , or ]");
        return items;
    }

    json::object parse_object(int depth) {
        enter(depth);
        ++p_;
        json::object members;
        if (take('}')) return members;
        do {
            space();
            if (p_ == end_ || *p_ != '"') fail("expected a key");
            std::string key = parse_text();
            if (!take(':')) fail("expected :");
            members.emplace_back(std::move(key), parse(depth + 1));
        } while (take(','));
        if (!take('}')) fail("expected , or }");
        std::vector<std::string_view> keys;
        keys.reserve(members.size());
        for (auto const& member : members) keys.push_back(member.first);
        std::sort(keys.begin(), keys.end());
        auto twice = std::adjacent_find(keys.begin(), keys.end());
        if (twice != keys.end()) throw error("a key stands twice", file_, std::string(twice->substr(0, 80)));
        return members;
    }

    std::uint32_t hex4() {
        std::uint32_t code = 0;
        for (int i = 0; i < 4; ++i, ++p_) {
            if (p_ == end_) fail("a text that does not end");
            char c = *p_;
            int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
            if (digit < 0) fail("an escape that is none");
            code = code * 16 + std::uint32_t(digit);
        }
        return code;
    }

    std::string parse_text() {
        std::string text;
        ++p_;
        for (;;) {
            char const* start = p_;
            while (p_ != end_ && *p_ != '"' && *p_ != '\\' && static_cast<unsigned char>(*p_) >= 0x20) ++p_;
            text.append(start, p_);
            if (p_ == end_) fail("a text that does not end");
            if (*p_ == '"') {
                ++p_;
                return text;
            }
            if (*p_ != '\\') fail("a control character in a text");
            if (++p_ == end_) fail("a text that does not end");
            char c = *p_++;
            switch (c) {
                case '"': case '\\': case '/': text += c; break;
                case 'b': text += '\b'; break;
                case 'f': text += '\f'; break;
                case 'n': text += '\n'; break;
                case 'r': text += '\r'; break;
                case 't': text += '\t'; break;
                case 'u': {
                    std::uint32_t code = hex4();
                    if (code >= 0xD800 && code < 0xDC00 && end_ - p_ >= 6 && p_[0] == '\\' && p_[1] == 'u') {
                        char const* after = p_;
                        p_ += 2;
                        std::uint32_t low = hex4();
                        if (low >= 0xDC00 && low < 0xE000) {
                            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                        } else {
                            p_ = after;
                        }
                    }
                    append_utf8(text, code);
                    break;
                }
                default: fail("an escape that is none");
            }
        }
    }

    json parse_number() {
        char const* start = p_;
        auto digits = [this] {
            char const* first = p_;
            while (p_ != end_ && is_digit(*p_)) ++p_;
            return p_ - first;
        };
        bool negative = *p_ == '-';
        if (negative) ++p_;
        char const* integer = p_;
        if (digits() == 0) fail("no value");
        if (*integer == '0' && p_ - integer > 1) fail("a number that begins with 0");
        std::string_view whole(integer, std::size_t(p_ - integer));
        bool is_real = false;
        if (p_ != end_ && *p_ == '.') {
            is_real = true;
            ++p_;
            if (digits() == 0) fail("a number without a fraction");
        }
        if (p_ != end_ && (*p_ == 'e' || *p_ == 'E')) {
            is_real = true;
            ++p_;
            if (p_ != end_ && (*p_ == '+' || *p_ == '-')) ++p_;
            if (digits() == 0) fail("a number without an exponent");
        }
        std::string_view text(start, std::size_t(p_ - start));
        if (is_real) return json{real(text)};
        std::int64_t number = 0;
        if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) return json{number};
        static std::string const limit = power_of_two(max_int_bits);
        if (whole.size() > limit.size() || (whole.size() == limit.size() && whole >= limit)) {
            throw error("an int of too many bits", file_, "", "at most " + std::to_string(max_int_bits));
        }
        return json{big_integer{std::string(text)}};
    }

    static std::string power_of_two(std::size_t bits) {
        std::string digits = "1";  // the last digit first
        for (; bits > 0; --bits) {
            int carry = 0;
            for (char& c : digits) {
                int twice = 2 * (c - '0') + carry;
                c = char('0' + twice % 10);
                carry = twice / 10;
            }
            if (carry != 0) digits += '1';
        }
        return {digits.rbegin(), digits.rend()};
    }

    static double real(std::string_view text) {
        double number = 0;
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
        if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) return number;
#else
        std::istringstream stream{std::string(text)};
        stream.imbue(std::locale::classic());
        if (stream >> number) return number;
#endif
        // Too large or too small, which the place of its first digit tells.
        bool negative = text[0] == '-';
        std::size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
        std::string_view mantissa = text.substr(0, exponent_at);
        std::size_t first = mantissa.find_first_of("123456789"), point = std::min(mantissa.find('.'), mantissa.size());
        bool large = false;
        if (first != std::string_view::npos) {
            std::int64_t magnitude = std::int64_t(point) - std::int64_t(first), exponent = 0;
            if (exponent_at != text.size()) {
                std::string_view digits = text.substr(exponent_at + 1);
                bool down = digits[0] == '-';
                if (digits[0] == '+' || digits[0] == '-') digits.remove_prefix(1);
                if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc()) {
                    exponent = std::int64_t(1) << 60;  // more than a document can have digits
                }
                exponent = std::min(exponent, std::int64_t(1) << 60);
                if (down) exponent = -exponent;
            }
            large = magnitude + exponent > 0;
        }
        number = large ? std::numeric_limits<double>::infinity() : 0.0;
        return negative ? -number : number;
    }
};

// ---- names

struct file_name {
    std::string trace;
    char kind = 0;            // 'm'anifest, 'h'eader, 'b'lob
    std::int64_t first = 0;   // number of the batch's first episode; 0 for a manifest
};

/// Takes `least` to `most` digits off the front of `text`; how many, 0 if there are not enough.
inline std::size_t take_digits(std::string_view& text, std::size_t least, std::size_t most) {
    std::size_t n = 0;
    while (n < text.size() && n < most && is_digit(text[n])) ++n;
    if (n < least) return 0;
    text.remove_prefix(n);
    return n;
}

inline bool take_text(std::string_view& text, std::string_view part) {
    if (text.substr(0, part.size()) != part) return false;
    text.remove_prefix(part.size());
    return true;
}

inline bool is_hex12(std::string_view text) {
    return text.size() == 12 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The parts of a file name; nothing for files that are none of ours.
inline std::optional<file_name> parse_name(std::string_view name) {
    std::string_view rest = name;
    if (!take_text(rest, "openaigym.trace.") || !take_digits(rest, 1, 20) || !take_text(rest, ".") || !take_digits(rest, 1, 20)) {
        return std::nullopt;
    }
    if (!rest.empty() && rest[0] == '-') {
        if (!is_hex12(rest.substr(1, 12))) return std::nullopt;
        rest.remove_prefix(13);
    }
    file_name parsed;
    parsed.trace = std::string(name.substr(0, name.size() - rest.size()));
    if (rest == ".manifest.json") {
        parsed.kind = 'm';
        return parsed;
    }
    if (!take_text(rest, ".ep")) return std::nullopt;
    char const* digits = rest.data();
    std::size_t count = take_digits(rest, 9, 18);
    if (count == 0) return std::nullopt;
    std::from_chars(digits, digits + count, parsed.first);
    if (rest == ".json") {
        parsed.kind = 'h';
        return parsed;
    }
    parsed.kind = 'b';
    if (rest == ".bin") return parsed;
    if (!take_text(rest, ".") || !take_digits(rest, 1, 6) || rest != ".bin") return std::nullopt;
    return parsed;
}

/// Whether the name of a trace is of version 2.
inline bool is_current(std::string_view trace) {
    return trace.size() > 13 && trace[trace.size() - 13] == '-' && is_hex12(trace.substr(trace.size() - 12));
}

/// Whether `a` stands before `b` with the numbers in them compared as numbers.
inline bool natural_less(std::string_view a, std::string_view b) {
    auto number = [](std::string_view& text) {
        std::size_t n = 0;
        while (n < text.size() && is_digit(text[n])) ++n;
        std::string_view digits = text.substr(0, n);
        text.remove_prefix(n);
        digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
        return digits;
    };
    while (!a.empty() && !b.empty()) {
        if (is_digit(a[0]) && is_digit(b[0])) {
            std::string_view one = number(a), other = number(b);
            if (one.size() != other.size()) return one.size() < other.size();
            if (one != other) return one < other;
        } else {
            // A text that ends where a number begins stands first, as the shorter one.
            if (is_digit(a[0]) != is_digit(b[0])) return is_digit(a[0]);
            if (a[0] != b[0]) return a[0] < b[0];
            a.remove_prefix(1);
            b.remove_prefix(1);
        }
    }
    return a.empty() && !b.empty();
}

// ---- files

/// The bytes of a file: mapped, or in memory.
class file_bytes {
public:
    file_bytes(void* map, std::size_t size) : map_(map), size_(size) {}
    explicit file_bytes(std::string data) : memory_(std::move(data)), size_(memory_.size()) {}
    file_bytes(file_bytes const&) = delete;
    file_bytes& operator=(file_bytes const&) = delete;
    ~file_bytes() {
        if (map_ != nullptr) ::munmap(map_, size_);
    }
    bytes_view view() const { return {map_ != nullptr ? static_cast<char const*>(map_) : memory_.data(), size_}; }

private:
    void* map_ = nullptr;
    std::string memory_;
    std::size_t size_;
};

struct descriptor {
    int number;
    explicit descriptor(int n) : number(n) {}
    descriptor(descriptor const&) = delete;
    descriptor& operator=(descriptor const&) = delete;
    ~descriptor() {
        if (number >= 0) ::close(number);
    }
};

/// The bytes of a regular file of that bare name; nullptr if there is none.
inline std::shared_ptr<file_bytes const> read_file(std::string const& directory, std::string const& name, bool map,
                                                   std::size_t limit = std::numeric_limits<std::size_t>::max()) {
    if (!parse_name(name)) throw error("not the name of a file of a recording", quoted(name));
    std::string path = directory + "/" + name;
    // O_NONBLOCK: a FIFO must not make anybody wait.
    descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (opened.number < 0) {
        if (errno == ENOENT) return nullptr;
        throw error(std::string("cannot be opened: ") + std::strerror(errno), name, "", "a regular file");
    }
    struct stat status {};
    if (::fstat(opened.number, &status) != 0 || !S_ISREG(status.st_mode)) {
        throw error("cannot be opened", name, "", "a regular file");
    }
    auto size = static_cast<std::uint64_t>(status.st_size);
    if (size > limit || size > std::numeric_limits<std::size_t>::max() / 2) {
        throw error("too large", name, "", "at most " + std::to_string(limit) + " bytes", std::to_string(size));
    }
    if (size == 0) return std::make_shared<file_bytes>(std::string());
    if (map) {
        void* address = ::mmap(nullptr, std::size_t(size), PROT_READ, MAP_SHARED, opened.number, 0);
        if (address == MAP_FAILED) throw error(std::string("cannot be mapped: ") + std::strerror(errno), name);
        return std::make_shared<file_bytes>(address, std::size_t(size));
    }
    std::string data;
    data.resize(std::size_t(size));
    std::size_t done = 0;
    while (done < data.size()) {
        ssize_t n = ::read(opened.number, &data[done], data.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw error(std::string("cannot be read: ") + std::strerror(errno), name);
        if (n == 0) break;
        done += std::size_t(n);
    }
    data.resize(done);
    return std::make_shared<file_bytes>(std::move(data));
}

/// The names in a directory, sorted; none if it does not exist.
inline std::vector<std::string> list_directory(std::string const& directory) {
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(directory.c_str()), ::closedir);
    if (!opened) {
        if (errno == ENOENT) return names;
        throw error(std::string("cannot be listed: ") + std::strerror(errno), directory);
    }
    for (;;) {
        errno = 0;
        dirent const* entry = ::readdir(opened.get());
        if (entry == nullptr) break;
        names.emplace_back(entry->d_name);
    }
    if (errno != 0) throw error(std::string("cannot be listed: ") + std::strerror(errno), directory);
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace detail

// ---- dtypes

struct field;

/// What the elements of an array are.
struct dtype {
    char kind = 'V';       ///< as NumPy's: 'b'ool, 'i'nt, 'u'nsigned, 'f'loat, 'c'omplex, 'S' bytes, 'U' text, 'V' structure
    std::size_t size = 0;  ///< bytes of an element
    bool big_endian = false;
    std::string view;           ///< "bfloat16" and such: what the unsigned integers of `kind` and `size` mean
    std::string text;           ///< as the file names it
    std::vector<field> fields;  ///< of a structure

    /// Bytes that are swapped as one: 0 of a structure.
    std::size_t unit() const { return kind == 'V' ? 0 : kind == 'c' ? size / 2 : kind == 'U' ? 4 : kind == 'S' ? 1 : size; }

    /// NumPy's type string, little-endian: "<f4", "|u1", "<U5"; of a structure `text`.
    std::string code() const {
        if (kind == 'V') return text;
        return std::string(unit() == 1 ? "|" : "<") + kind + std::to_string(kind == 'U' ? size / 4 : size);
    }
};

/// A field of a structure, at `offset` in each element; an array of `shape` if that is not empty.
struct field {
    std::string name;
    std::size_t offset = 0;
    dtype type;
    std::vector<std::size_t> shape;
    std::size_t size = 0;
};

namespace detail {

/// A Python literal, as dtypes and .npy headers have them. `kind`: 's'tr, 'i'nt, 'b'ool, 'n'one, 'l'ist, 't'uple, 'd'ict.
struct literal {
    char kind = 'n';
    std::string text;
    std::int64_t number = 0;
    std::vector<literal> items;  // of a dict: key, value, key, value, ...
};

struct bad_literal {};

class literal_parser {
public:
    explicit literal_parser(std::string_view text) : rest_(text) {}

    literal parse_all() {
        literal value = parse(0);
        space();
        if (!rest_.empty()) throw bad_literal{};
        return value;
    }

private:
    std::string_view rest_;

    void space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

    bool take(char c) {
        space();
        if (rest_.empty() || rest_[0] != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    literal parse(int depth) {
        if (depth > max_literal_depth) throw bad_literal{};
        literal value;
        if (take('[')) {
            value.kind = 'l';
            while (!take(']')) {
                value.items.push_back(parse(depth + 1));
                if (!take(',')) {
                    if (!take(']')) throw bad_literal{};
                    break;
                }
            }
            return value;
        }
        if (take('(')) {
            while (!take(')')) {
                value.items.push_back(parse(depth + 1));
                if (!take(',')) {
                    if (!take(')')) throw bad_literal{};
                    if (value.items.size() == 1) return literal(std::move(value.items[0]));  // in brackets only
                    break;
                }
            }
            value.kind = 't';
            return value;
        }
        if (take('{')) {
            value.kind = 'd';
            while (!take('}')) {
                value.items.push_back(parse(depth + 1));
                if (!take(':')) throw bad_literal{};
                value.items.push_back(parse(depth + 1));
                if (!take(',')) {
                    if (!take('}')) throw bad_literal{};
                    break;
                }
            }
            return value;
        }
        space();
        for (auto const& [name, kind, number] : {std::tuple<std::string_view, char, int>{"True", 'b', 1}, {"False", 'b', 0}, {"None", 'n', 0}}) {
            if (take_text(rest_, name)) {
                value.kind = kind;
                value.number = number;
                return value;
            }
        }
        if (!rest_.empty() && (is_digit(rest_[0]) || rest_[0] == '-')) {
            auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value.number);
            if (result.ec != std::errc()) throw bad_literal{};
            rest_.remove_prefix(std::size_t(result.ptr - rest_.data()));
            if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // of Python 2
            value.kind = 'i';
            return value;
        }
        value.kind = 's';
        value.text = parse_text();
        return value;
    }

    std::uint32_t hex(std::size_t count) {
        std::uint32_t code = 0;
        if (rest_.size() < count) throw bad_literal{};
        auto result = std::from_chars(rest_.data(), rest_.data() + count, code, 16);
        if (result.ec != std::errc() || result.ptr != rest_.data() + count) throw bad_literal{};
        rest_.remove_prefix(count);
        return code;
    }

    std::string parse_text() {
        if (!rest_.empty() && rest_[0] == 'u') rest_.remove_prefix(1);  // of Python 2
        if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) throw bad_literal{};
        char quote = rest_[0];
        rest_.remove_prefix(1);
        std::string text;
        for (;;) {
            if (rest_.empty() || rest_[0] == '\n' || rest_[0] == '\0') throw bad_literal{};
            char c = rest_[0];
            rest_.remove_prefix(1);
            if (c == quote) return text;
            if (c != '\\') {
                text += c;
                continue;
            }
            if (rest_.empty()) throw bad_literal{};
            c = rest_[0];
            rest_.remove_prefix(1);
            switch (c) {
                case '\\': case '\'': case '"': text += c; break;
                case 'n': text += '\n'; break;
                case 'r': text += '\r'; break;
                case 't': text += '\t'; break;
                case 'a': text += '\a'; break;
                case 'b': text += '\b'; break;
                case 'f': text += '\f'; break;
                case 'v': text += '\v'; break;
                case 'x': append_utf8(text, hex(2)); break;
                case 'u': append_utf8(text, hex(4)); break;
                case 'U': {
                    std::uint32_t code = hex(8);
                    if (code > 0x10FFFF) throw bad_literal{};
                    append_utf8(text, code);
                    break;
                }
                default: throw bad_literal{};
            }
        }
    }
};

constexpr std::size_t max_element = 0x7FFFFFFF;  // bytes; NumPy's limit

inline std::size_t checked_add(std::size_t a, std::size_t b) {
    if (a > max_element || b > max_element || a + b > max_element) throw bad_literal{};
    return a + b;
}

inline dtype build_dtype(literal const& description, int depth);

inline std::optional<dtype> plain_dtype(std::string_view text) {
    static std::map<std::string_view, std::pair<char, std::size_t>> const names = {
        {"bool", {'b', 1}}, {"int8", {'i', 1}}, {"int16", {'i', 2}}, {"int32", {'i', 4}}, {"int64", {'i', 8}},
        {"uint8", {'u', 1}}, {"uint16", {'u', 2}}, {"uint32", {'u', 4}}, {"uint64", {'u', 8}}, {"float16", {'f', 2}},
        {"float32", {'f', 4}}, {"float64", {'f', 8}}, {"complex64", {'c', 8}}, {"complex128", {'c', 16}},
        {"?", {'b', 1}}, {"b1", {'b', 1}}, {"i1", {'i', 1}}, {"i2", {'i', 2}}, {"i4", {'i', 4}}, {"i8", {'i', 8}},
        {"u1", {'u', 1}}, {"u2", {'u', 2}}, {"u4", {'u', 4}}, {"u8", {'u', 8}}, {"f2", {'f', 2}}, {"f4", {'f', 4}},
        {"f8", {'f', 8}}, {"c8", {'c', 8}}, {"c16", {'c', 16}}};
    dtype made;
    made.text = std::string(text);
    bool has_order = !text.empty() && std::string_view("<>|=").find(text[0]) != std::string_view::npos;
    std::string_view code = has_order ? text.substr(1) : text;
    auto found = names.find(code);
    if (found != names.end() && !(has_order && code.size() > 3)) {  // long names have no order
        std::tie(made.kind, made.size) = found->second;
    } else if (code.size() > 1 && (code[0] == 'S' || code[0] == 'U') && code[1] != '0') {
        std::string_view digits = code.substr(1);
        made.kind = code[0];
        std::size_t count = 0;
        std::size_t most = made.kind == 'S' ? 9 : 8;
        if (digits.size() > most || digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
        std::from_chars(digits.data(), digits.data() + digits.size(), count);
        made.size = made.kind == 'U' ? 4 * count : count;
    } else {
        return std::nullopt;
    }
    made.big_endian = has_order && text[0] == '>' && made.unit() > 1;
    return made;
}

inline dtype parse_dtype(std::string_view text, int depth) {
    if (text.size() <= max_dtype_text * 4 && depth <= max_literal_depth) {  // bytes; characters are counted by the caller
        if (auto plain = plain_dtype(text)) return *std::move(plain);
        if (!text.empty() && (text[0] == '[' || text[0] == '{')) {
            dtype made = build_dtype(literal_parser(text).parse_all(), depth);
            made.text = std::string(text);
            if (!made.fields.empty()) return made;
        }
    }
    throw bad_literal{};
}

inline field build_field(std::string const& name, literal const& base, literal const* shape, int depth) {
    field made;
    made.name = name;
    made.type = build_dtype(base, depth + 1);
    made.size = made.type.size;
    if (shape != nullptr) {
        if (shape->kind != 't' || shape->items.size() > max_ndim) throw bad_literal{};
        for (literal const& length : shape->items) {
            if (length.kind != 'i' || length.number < 0 || std::uint64_t(length.number) > max_element) throw bad_literal{};
            made.shape.push_back(std::size_t(length.number));
            std::uint64_t size = std::uint64_t(made.size) * std::uint64_t(length.number);  // both below 2^31
            if (size > max_element) throw bad_literal{};
            made.size = std::size_t(size);
        }
    }
    return made;
}

/// The literal of a key of a dict.
inline literal const& literal_at(literal const& dict, std::string_view key) {
    literal const* found = nullptr;
    for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
        if (dict.items[i].kind == 's' && dict.items[i].text == key) found = &dict.items[i + 1];
    }
    if (found == nullptr) throw bad_literal{};
    return *found;
}

/// A structure from NumPy's description of it: the list of fields, or, in old files, the dict with offsets.
inline dtype build_dtype(literal const& description, int depth) {
    if (depth > max_literal_depth) throw bad_literal{};
    if (description.kind == 's') return parse_dtype(description.text, depth + 1);
    dtype made;
    if (description.kind == 'd') {
        literal const& names = literal_at(description, "names");
        literal const& formats = literal_at(description, "formats");
        literal const& offsets = literal_at(description, "offsets");
        literal const& itemsize = literal_at(description, "itemsize");
        if (itemsize.kind != 'i' || itemsize.number < 0 || std::uint64_t(itemsize.number) > max_element ||
            names.items.size() != formats.items.size() || names.items.size() != offsets.items.size()) {
            throw bad_literal{};
        }
        made.size = std::size_t(itemsize.number);
        for (std::size_t i = 0; i < names.items.size(); ++i) {
            literal const& format = formats.items[i];
            literal const& offset = offsets.items[i];
            bool is_array = format.kind == 't' && format.items.size() == 2;  // (base, shape)
            if (names.items[i].kind != 's' || offset.kind != 'i' || offset.number < 0) throw bad_literal{};
            field part = build_field(names.items[i].text, is_array ? format.items[0] : format,
                                     is_array ? &format.items[1] : nullptr, depth);
            part.offset = std::size_t(offset.number);
            if (std::uint64_t(offset.number) > max_element || checked_add(part.offset, part.size) > made.size) throw bad_literal{};
            made.fields.push_back(std::move(part));
        }
        std::vector<std::pair<std::size_t, std::size_t>> places;
        for (field const& part : made.fields) places.emplace_back(part.offset, part.size);
        std::sort(places.begin(), places.end());
        for (std::size_t i = 1; i < places.size(); ++i) {  // fields do not overlap
            if (places[i - 1].first + places[i - 1].second > places[i].first) throw bad_literal{};
        }
    } else if (description.kind == 'l') {
        for (literal const& entry : description.items) {
            if (entry.kind != 't' || entry.items.size() < 2 || entry.items.size() > 3 || entry.items[0].kind != 's') throw bad_literal{};
            literal const& base = entry.items[1];
            std::string_view type = base.text;
            if (base.kind == 's' && entry.items[0].text.empty()) {  // padding: ('', '|V4')
                if (!type.empty() && type[0] == '|') type.remove_prefix(1);
                if (take_text(type, "V")) {
                    std::size_t count = 0;
                    auto result = std::from_chars(type.data(), type.data() + type.size(), count);
                    if (result.ec != std::errc() || result.ptr != type.data() + type.size() || type.size() > 9) throw bad_literal{};
                    made.size = checked_add(made.size, count);
                    continue;
                }
            }
            field part = build_field(entry.items[0].text, base, entry.items.size() == 3 ? &entry.items[2] : nullptr, depth);
            part.offset = made.size;
            made.size = checked_add(made.size, part.size);
            made.fields.push_back(std::move(part));
        }
    } else {
        throw bad_literal{};
    }
    if (made.fields.empty()) throw bad_literal{};
    std::set<std::string_view> seen;
    for (field const& part : made.fields) {
        if (!seen.insert(part.name).second) throw bad_literal{};
    }
    return made;
}

inline bool same_dtype(dtype const& a, dtype const& b) {
    if (a.kind != b.kind || a.size != b.size || a.big_endian != b.big_endian || a.fields.size() != b.fields.size()) return false;
    for (std::size_t i = 0; i < a.fields.size(); ++i) {
        field const &one = a.fields[i], &other = b.fields[i];
        if (one.name != other.name || one.offset != other.offset || one.shape != other.shape || !same_dtype(one.type, other.type)) return false;
    }
    return true;
}

inline bool is_view_of(std::string_view view, dtype const& type) {
    static std::set<std::string_view> const of_8_bits = {
        "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"};
    std::size_t size = view == "bfloat16" ? 2 : of_8_bits.count(view) != 0 ? 1 : 0;
    return size != 0 && type.kind == 'u' && type.size == size && !type.big_endian;
}

inline bool host_is_big_endian() {
    std::uint16_t const one = 1;
    unsigned char first;
    std::memcpy(&first, &one, 1);
    return first == 0;
}

}  // namespace detail

// ---- arrays

/// IEEE 754 binary16, the bits as they are; converts to float exactly.
struct float16 {
    std::uint16_t bits;
    operator float() const {
        int exponent = (bits >> 10) & 31;
        auto mantissa = std::uint32_t(bits & 1023);
        float number;
        if (exponent == 31) {
            std::uint32_t wide = 0x7F800000U | mantissa << 13;
            std::memcpy(&number, &wide, sizeof number);
        } else {
            number = exponent == 0 ? std::ldexp(float(mantissa), -24) : std::ldexp(float(mantissa + 1024), exponent - 25);
        }
        return (bits & 0x8000) != 0 ? -number : number;
    }
};

/// The upper half of a float; converts to float exactly.
struct bfloat16 {
    std::uint16_t bits;
    operator float() const {
        std::uint32_t wide = std::uint32_t(bits) << 16;
        float number;
        std::memcpy(&number, &wide, sizeof number);
        return number;
    }
};

/// Elements one after the other, in memory that lives for as long as the span.
template <class T>
class span {
public:
    using value_type = T;
    span(std::shared_ptr<void const> owner, T const* data, std::size_t size) : owner_(std::move(owner)), data_(data), size_(size) {}
    T const* data() const { return data_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T const* begin() const { return data_; }
    T const* end() const { return data_ + size_; }
    T const& operator[](std::size_t i) const { return data_[i]; }

private:
    std::shared_ptr<void const> owner_;
    T const* data_;
    std::size_t size_;
};

namespace detail {

template <class T>
struct element {  // which dtypes a T stands for
    static bool fits(dtype const& type) {
        if constexpr (std::is_same_v<T, bool>) {
            return type.kind == 'b';
        } else if constexpr (std::is_same_v<T, float16>) {
            return type.kind == 'f' && type.size == 2;
        } else if constexpr (std::is_same_v<T, bfloat16>) {
            return type.view == "bfloat16";
        } else if constexpr (std::is_floating_point_v<T>) {
            return type.kind == 'f' && type.size == sizeof(T);
        } else if constexpr (std::is_integral_v<T>) {  // also the carrier of a view
            return type.kind == (std::is_signed_v<T> ? 'i' : 'u') && type.size == sizeof(T);
        } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
            return type.kind == 'c' && type.size == sizeof(T);
        } else {
            static_assert(std::is_integral_v<T>, "no dtype has elements of this type");
            return false;
        }
    }
};

}  // namespace detail

/// An array as it lies in a blob. It keeps the map alive, so it stays valid after the reader is gone.
class array {
public:
    /// For the reader alone, which has checked that all of it lies inside of what `owner` owns.
    array(std::shared_ptr<void const> owner, char const* data, std::shared_ptr<dtype const> type,
          std::vector<std::uint64_t> shape, bool is_fortran)
        : owner_(std::move(owner)), data_(data), dtype_(std::move(type)), shape_(std::move(shape)), strides_(shape_.size()) {
        std::uint64_t step = dtype_->size;
        for (std::size_t i = 0; i < shape_.size(); ++i) {
            std::size_t axis = is_fortran ? i : shape_.size() - 1 - i;
            strides_[axis] = step;
            step *= std::max<std::uint64_t>(shape_[axis], 1);
        }
    }

    gym_recording::dtype const& dtype() const { return *dtype_; }
    std::vector<std::uint64_t> const& shape() const { return shape_; }

    /// How many elements there are.
    std::uint64_t size() const {
        std::uint64_t count = 1;
        for (std::uint64_t length : shape_) {
            if (length == 0) return 0;
            count *= length;
        }
        return count;
    }

    /// The elements in C order, as the T that the dtype says: bool, integers, float16, bfloat16, float, double, complex.
    /// Views and float8 also as the unsigned integers that carry them. A span over the map, or over a copy where the
    /// file has another byte order, Fortran order or an address that is not aligned. Throws `error` for another T.
    template <class T>
    span<T> as() const {
        if (!detail::element<T>::fits(*dtype_)) throw error("the elements are of another type", "", "dtype", "", dtype_->view.empty() ? dtype_->text : dtype_->view);
        auto [owner, data] = contiguous(alignof(T));
        auto count = std::size_t(size());
        if constexpr (std::is_same_v<T, bool>) {  // a byte of another value is no bool that C++ may look at
            if (std::any_of(data, data + count, [](char c) { return c != 0 && c != 1; })) {
                std::shared_ptr<char[]> copy(new char[count]);
                std::transform(data, data + count, copy.get(), [](char c) { return char(c != 0); });
                data = copy.get();
                owner = copy;
            }
        }
        return span<T>(std::move(owner), reinterpret_cast<T const*>(data), count);
    }

    /// The bytes of the elements in C order and the byte order of this machine; those of a structure as they are.
    span<unsigned char> bytes() const {
        auto [owner, data] = contiguous(1);
        return span<unsigned char>(std::move(owner), reinterpret_cast<unsigned char const*>(data), std::size_t(size() * dtype_->size));
    }

    /// The elements of dtypes `<U` and `|S`, the first as UTF-8, without the NULs that fill them up.
    std::vector<std::string> texts() const {
        if (dtype_->kind != 'U' && dtype_->kind != 'S') throw error("the elements are no text", "", "dtype", "", dtype_->text);
        auto data = bytes();
        std::vector<std::string> all;
        for (std::size_t at = 0; at < data.size(); at += dtype_->size) {
            std::string text;
            std::size_t end = dtype_->size;
            while (end > 0 && data[at + end - 1] == 0) --end;
            if (dtype_->kind == 'S') {
                text.assign(reinterpret_cast<char const*>(data.data()) + at, end);
            } else {
                for (std::size_t i = 0; i < end; i += 4) {
                    std::uint32_t code;
                    std::memcpy(&code, data.data() + at + i, 4);
                    if (code > 0x10FFFF) throw error("no character", "", "", "at most U+10FFFF", std::to_string(code));
                    detail::append_utf8(text, code);
                }
            }
            all.push_back(std::move(text));
        }
        return all;
    }

    /// `array[t]`.
    array row(std::uint64_t t) const {
        if (shape_.empty() || t >= shape_[0]) throw error("no such row", "", "", "", std::to_string(t));
        array part = *this;
        if (size() != 0) part.data_ += t * strides_[0];
        part.shape_.erase(part.shape_.begin());
        part.strides_.erase(part.strides_.begin());
        return part;
    }

    /// The same array with another shape of as many elements: (1, 0) of old files as (0).
    void reshape_empty() { shape_ = {0}, strides_ = {dtype_->size}; }

private:
    std::shared_ptr<void const> owner_;
    char const* data_;
    std::shared_ptr<gym_recording::dtype const> dtype_;
    std::vector<std::uint64_t> shape_, strides_;

    bool is_contiguous() const {
        std::uint64_t step = dtype_->size;
        for (std::size_t i = shape_.size(); i-- > 0;) {
            if (shape_[i] > 1 && strides_[i] != step) return false;
            step *= std::max<std::uint64_t>(shape_[i], 1);
        }
        return true;
    }

    std::pair<std::shared_ptr<void const>, char const*> contiguous(std::size_t alignment) const {
        bool swaps = dtype_->unit() > 1 && dtype_->big_endian != detail::host_is_big_endian();
        std::size_t count = std::size_t(size()), total = count * dtype_->size;
        if (total == 0) {  // a place that is aligned for everything, of which nothing is read
            static std::max_align_t const nothing{};
            return {nullptr, reinterpret_cast<char const*>(&nothing)};
        }
        if (!swaps && is_contiguous() && reinterpret_cast<std::uintptr_t>(data_) % alignment == 0) return {owner_, data_};
        std::shared_ptr<char[]> copy(new char[total]);
        std::vector<std::uint64_t> index(shape_.size());
        std::uint64_t from = 0;
        for (std::size_t n = 0; n < count; ++n) {
            std::memcpy(copy.get() + n * dtype_->size, data_ + from, dtype_->size);
            for (std::size_t axis = shape_.size(); axis-- > 0;) {
                from += strides_[axis];
                if (++index[axis] < shape_[axis]) break;
                from -= strides_[axis] * shape_[axis];
                index[axis] = 0;
            }
        }
        if (swaps) {
            for (std::size_t at = 0; at < total; at += dtype_->unit()) std::reverse(copy.get() + at, copy.get() + at + dtype_->unit());
        }
        char const* data = copy.get();
        return {std::move(copy), data};
    }
};

// ---- values

class value;

struct list_value {
    std::vector<value> items;
};
struct tuple_value {
    std::vector<value> items;
};
/// In the order of the file. Keys are text, and, where the dict has such, numbers, booleans and null.
struct dict_value {
    std::vector<std::pair<value, value>> items;
};

/// A column of an episode, which has rows, or a single value. Which of both, its place says:
///
/// | type | of a column | of a single value |
/// |---|---|---|
/// | array | its first dimension is the rows | an array; of shape {}, a scalar with a dtype |
/// | list | one single value per row | a list |
/// | tuple, dict | columns | single values |
/// | null, boolean, integer, big_integer, real, text | none | itself |
class value {
public:
    enum class kind { null, boolean, integer, big_integer, real, text, array, list, tuple, dict };
    std::variant<std::monostate, bool, std::int64_t, big_integer, double, std::string, gym_recording::array, list_value, tuple_value, dict_value> data;

    kind type() const { return static_cast<kind>(data.index()); }

    bool is_null() const { return data.index() == 0; }
    bool boolean() const { return get<bool>("a boolean"); }
    std::int64_t integer() const { return get<std::int64_t>("an integer of 64 bits"); }
    double real() const { return get<double>("a float"); }
    std::string const& text() const { return get<std::string>("text"); }
    gym_recording::array const& array() const { return get<gym_recording::array>("an array"); }

    /// The decimal digits of an integer of any size.
    std::string digits() const { return type() == kind::big_integer ? std::get<big_integer>(data).digits : std::to_string(integer()); }

    template <class T>
    span<T> as() const {
        return array().as<T>();
    }
    std::vector<std::uint64_t> const& shape() const { return array().shape(); }

    /// The items of a list or tuple.
    std::vector<value> const& items() const {
        return type() == kind::tuple ? std::get<tuple_value>(data).items : get<list_value>("a list or tuple").items;
    }
    template <class Index, class = std::enable_if_t<std::is_integral_v<Index>>>  // so that 0 is no pointer
    value const& operator[](Index i) const {
        if (std::uint64_t(i) >= items().size()) throw error("no such item", "", "", "", std::to_string(i));
        return items()[std::size_t(i)];
    }

    /// The keys and values of a dict.
    std::vector<std::pair<value, value>> const& members() const { return get<dict_value>("a dict").items; }

    /// The value of a text key, nullptr if there is none.
    value const* find(std::string_view key) const {
        for (auto const& [name, item] : members()) {
            if (name.type() == kind::text && name.text() == key) return &item;
        }
        return nullptr;
    }
    value const& operator[](std::string_view key) const {
        value const* found = find(key);
        if (found == nullptr) throw error("no such key", "", std::string(key));
        return *found;
    }
    value const& operator[](char const* key) const { return (*this)[std::string_view(key)]; }

    /// How many rows a column has.
    std::uint64_t rows() const {
        switch (type()) {
            case kind::list: return items().size();
            case kind::tuple: return (*this)[0].rows();
            case kind::dict: return members().empty() ? 0 : members()[0].second.rows();
            default: return shape().empty() ? 0 : shape()[0];
        }
    }

    /// Row t of a column, as a single value.
    value row(std::uint64_t t) const {
        switch (type()) {
            case kind::list: return (*this)[t];
            case kind::tuple: {
                tuple_value row;
                for (value const& column : items()) row.items.push_back(column.row(t));
                return value{std::move(row)};
            }
            case kind::dict: {
                dict_value row;
                for (auto const& [key, column] : members()) row.items.emplace_back(key, column.row(t));
                return value{std::move(row)};
            }
            default: return value{array().row(t)};
        }
    }

private:
    template <class T>
    T const& get(char const* what) const {
        T const* found = std::get_if<T>(&data);
        if (found == nullptr) throw error("the value is of another type", "", "", what);
        return *found;
    }

public:
    value() = default;
    template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, value>>>
    explicit value(T&& item) : data(std::forward<T>(item)) {}
};

// ---- episodes

/// The values that one key of the infos had: values.row(i) came with observation rows[i].
struct info_column {
    value key;
    std::vector<std::int64_t> rows;  ///< as a rule ascending
    bool is_ascending = true;
    value values;
};

/// One episode of T steps. `actions[t]` was applied to `observations[t]` and led to `observations[t + 1]`.
struct episode {
    value observations;  ///< T + 1 rows; T if headless
    value actions;       ///< T rows
    value rewards;       ///< T rows
    std::optional<bool> terminated, truncated;  ///< the flags of the last step, where known
    std::optional<std::string> ended_by;  ///< "terminated", "truncated", "reset", "close", "crash"; nothing while it runs or where unknown
    std::optional<value> seed, options;   ///< what reset was given; a seed is an integer of any size
    std::optional<std::string> started;   ///< UTC, ISO 8601
    std::optional<std::int64_t> lane;     ///< the sub-environment of a vector environment
    bool headless = false;                ///< no first observation is known: observations[t] is what actions[t] led to
    std::vector<std::int64_t> gaps;       ///< steps before which something happened that is not recorded
    std::optional<value> timestamps;      ///< float64, T rows: seconds since 1970
    std::optional<std::vector<info_column>> infos;
    /// Pictures, uint8, one for each row of the observations: an array {n, height, width} or {n, height, width, channels};
    /// if some are missing or differ in size, a list with an array or null for each.
    std::optional<value> frames;

    /// T, the number of steps.
    std::uint64_t size() const { return rewards.rows(); }

    /// The info that came with observation t, as a dict.
    value info(std::uint64_t t) const {
        dict_value row;
        if (!infos) return value{std::move(row)};
        for (info_column const& column : *infos) {
            auto const& rows = column.rows;
            std::size_t after = rows.size();  // the last place of t, and one more
            if (column.is_ascending) {
                after = std::size_t(std::upper_bound(rows.begin(), rows.end(), t, [](std::uint64_t a, std::int64_t b) { return a < std::uint64_t(b); }) - rows.begin());
                if (after > 0 && std::uint64_t(rows[after - 1]) != t) after = 0;
            } else {
                while (after > 0 && std::uint64_t(rows[after - 1]) != t) --after;
            }
            if (after > 0) row.items.emplace_back(column.key, column.values.row(after - 1));
        }
        return value{std::move(row)};
    }
};

/// A batch as the directory shows it.
struct batch {
    std::string file;        ///< the name of its header
    std::int64_t first = 0;  ///< the number of its first episode in the trace
    std::int64_t count = 0;  ///< how many episodes it has
    std::optional<error> problem;  ///< why it cannot be read, if that is known
};

/// Everything that one recorder wrote.
struct trace {
    std::string name;      ///< the beginning of all its file names
    std::string created;   ///< UTC, ISO 8601; empty in old recordings
    bool closed = false;
    std::string repaired;  ///< when it was repaired, empty if it was not
    json writer, env, metadata;  ///< null where not known
    std::vector<batch> batches;
    std::optional<error> problem;  ///< why its manifest cannot be read
};

// ---- documents

namespace detail {

/// The member of an object, which must be a T; counts are not negative. nullptr where it is absent and may be.
template <class T>
T const* member(json const& object, std::string_view key, std::string const& file, bool is_optional = false) {
    json const* found = object.find(key);
    if (found == nullptr && is_optional) return nullptr;
    T const* item = found == nullptr ? nullptr : found->get<T>();
    if constexpr (std::is_same_v<T, std::int64_t>) {
        if (item != nullptr && *item < 0) item = nullptr;
    }
    if (item == nullptr) {
        char const* expected = std::is_same_v<T, std::int64_t> ? "a number of at least 0"
                               : std::is_same_v<T, bool>       ? "a boolean"
                               : std::is_same_v<T, std::string> ? "text"
                               : std::is_same_v<T, json::list> ? "a list"
                                                               : "an object";
        throw error("malformed", file, std::string(key), expected, shown(found));
    }
    return item;
}

/// The major version: 1 for documents without `format`.
inline int document_version(json const& document, std::string const& file) {
    json const* format = document.find("format");
    if (format == nullptr) return 1;
    json const* name = format->find("name");
    json const* version = format->find("version");
    auto const* parts = version == nullptr ? nullptr : version->get<json::list>();
    if (name == nullptr || name->get<std::string>() == nullptr || *name->get<std::string>() != "gym-recording" ||
        parts == nullptr || parts->size() != 2 || !(*parts)[0].is_integer() || !(*parts)[1].is_integer()) {
        throw error("not a recording", file, "format", "{\"name\": \"gym-recording\", \"version\": [2, 0]}", shown(format));
    }
    auto const* major = (*parts)[0].get<std::int64_t>();
    if (major == nullptr || *major != 2) {
        throw error("of another version", file, "format.version", "2.x", shown(&(*parts)[0]) + "." + shown(&(*parts)[1]));
    }
    return 2;
}

/// The place of the 8 digits of the first `"crc32": "xxxxxxxx"`; npos if there is none.
inline std::size_t find_seal(bytes_view data) {
    constexpr std::string_view key = "\"crc32\"", space = " \t\n\r\f\v";
    for (std::size_t at = data.find(key); at != bytes_view::npos; at = data.find(key, at + 1)) {
        std::size_t p = data.find_first_not_of(space, at + key.size());
        if (p == bytes_view::npos || data[p] != ':') continue;
        p = data.find_first_not_of(space, p + 1);
        if (p == bytes_view::npos || data[p] != '"' || data.size() - p < 10 || data[p + 9] != '"') continue;
        if (data.substr(p + 1, 8).find_first_not_of("0123456789abcdef") == bytes_view::npos) return p + 1;
    }
    return bytes_view::npos;
}

/// A manifest or header of any version, whose checksum is right if it has one.
inline json read_document(bytes_view data, std::string const& file, int& version) {
    json_parser parser(data, file);
    json document = parser.document();
    if (document.get<json::object>() == nullptr) throw error("wrong top level", file, "", "an object", shown(&document));
    version = document_version(document, file);
    auto name = parse_name(file);
    if (name && is_current(name->trace) != (version >= 2)) {
        throw error("not of the version that its name says", file, "format", "", "version " + std::to_string(version));
    }
    if (version >= 2) {
        if (!parser.lenient.empty()) throw error("not strict JSON", file, "", "", parser.lenient);
        std::size_t at = find_seal(data);
        json const* seal = document.find("crc32");
        if (at == bytes_view::npos || seal == nullptr || seal->get<std::string>() == nullptr ||
            *seal->get<std::string>() != data.substr(at, 8)) {
            throw error("no checksum", file, "crc32", "8 hex digits");
        }
        std::string actual = hex8(crc32(data.substr(at + 8), crc32("00000000", crc32(data.substr(0, at)))));
        if (actual != data.substr(at, 8)) {
            throw error("damaged", file, "crc32", std::string(data.substr(at, 8)), actual);
        }
    }
    return document;
}

struct blob_entry {
    std::uint64_t size = 0;
    std::string crc32;
    std::uint64_t start = 0;
};

/// A header whose own members are well-formed; its episodes are untrusted until they are read.
struct header {
    std::string file;
    int version = 0;
    std::optional<std::int64_t> first;
    std::map<std::string, blob_entry> blobs;  // empty in versions 0 and 1
    json document;

    json::list const& episodes() const { return *document.find("episodes")->get<json::list>(); }
};

inline std::shared_ptr<header const> read_header(bytes_view data, std::string const& file) {
    auto made = std::make_shared<header>();
    made->file = file;
    made->document = read_document(data, file, made->version);
    for (json const& one : *member<json::list>(made->document, "episodes", file)) {
        if (one.get<json::object>() == nullptr) throw error("malformed", file, "episodes", "objects", shown(&one));
    }
    if (made->version < 2) return made;
    for (json const& one : *member<json::list>(made->document, "blobs", file)) {
        if (one.get<json::object>() == nullptr) throw error("malformed", file, "blobs", "objects", shown(&one));
        std::string const& fn = *member<std::string>(one, "fn", file);
        auto name = parse_name(fn);
        if (!name || name->kind != 'b' || made->blobs.count(fn) != 0) {
            throw error("not the name of a blob, or twice", file, "blobs.fn", "", quoted(fn));
        }
        blob_entry entry;
        entry.size = std::uint64_t(*member<std::int64_t>(one, "size", file));
        entry.crc32 = *member<std::string>(one, "crc32", file);
        json const* start = one.find("start");
        auto const* large = start == nullptr ? nullptr : start->get<big_integer>();
        if (large != nullptr && large->digits[0] != '-') {
            entry.start = entry.size;  // no byte is checked
        } else if (start != nullptr) {
            entry.start = std::uint64_t(*member<std::int64_t>(one, "start", file));
        }
        made->blobs.emplace(fn, std::move(entry));
    }
    member<json::list>(made->document, "columns", file);
    made->first = *member<std::int64_t>(made->document, "first", file);
    return made;
}

// ---- an episode of a header

inline std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
    constexpr auto most = std::uint64_t(std::numeric_limits<std::int64_t>::max());
    if (b != 0 && a > most / b) return std::nullopt;
    return a * b;
}

/// What tells keys of a dict apart as Python does: 1, 1.0 and true are the same key.
inline std::string key_identity(json const* key) {
    if (key == nullptr || key->is_null()) return "n";
    if (auto const* text = key->get<std::string>()) return "t" + *text;
    if (auto const* b = key->get<bool>()) return *b ? "i1" : "i0";
    if (auto const* n = key->get<std::int64_t>()) return "i" + std::to_string(*n);
    if (auto const* n = key->get<big_integer>()) return "i" + n->digits;
    double d = *key->get<double>();
    char text[400];
    if (std::isfinite(d) && d == std::floor(d)) {
        std::snprintf(text, sizeof text, "i%.0f", d == 0 ? 0.0 : d);
    } else {
        std::snprintf(text, sizeof text, "f%a", d);
    }
    return text;
}

class decoder {
public:
    template <class Blob>
    decoder(header const& header, Blob blob) : header_(header), file_(header.file), blob_(std::move(blob)) {}

    episode read(std::size_t index) {
        try {
            return read_members(header_.episodes()[index]);
        } catch (error& problem) {
            if (problem.file.empty()) problem.file = file_;
            problem.within("episodes[" + std::to_string(index) + "]");
            throw;
        }
    }

private:
    header const& header_;
    std::string const& file_;
    std::function<std::shared_ptr<file_bytes const>(std::string const&)> blob_;
    std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> seen_;
    std::map<std::string, std::uint64_t> asked_;  // bytes of each blob: no more than there are
    std::unordered_map<std::string, std::shared_ptr<dtype const>> dtypes_;

    static std::string part(std::size_t i) { return "[" + std::to_string(i) + "]"; }
    static std::string part(std::string const& key) { return "." + key; }
    static std::string part(json const* key) { return "[" + shown(key) + "]"; }

    /// What `read` gives; an error tells where it was.
    template <class Part, class Read>
    auto at(Part const& where, Read read) {
        try {
            return read();
        } catch (error& problem) {
            problem.within(part(where));
            throw;
        }
    }

    episode read_members(json const& source) {
        episode made;
        auto column_of = [&](char const* key) { return at(std::string(key), [&] { return column(source.find(key), 0); }); };
        made.observations = column_of("observations");
        made.actions = column_of("actions");
        made.rewards = column_of("rewards");
        if (header_.version < 2) {
            for (value* part : {&made.actions, &made.rewards}) {  // T = 0 was stored with shape (1, 0)
                auto* one = std::get_if<gym_recording::array>(&part->data);
                if (one != nullptr && one->shape() == std::vector<std::uint64_t>{1, 0}) one->reshape_empty();
            }
            made.headless = made.size() > 0 && made.size() == made.observations.rows();
        } else {
            auto plain = [&](char const* key, auto& to) {
                using T = typename std::decay_t<decltype(to)>::value_type;
                if (auto const* found = member<T>(source, key, file_, true)) to = *found;
            };
            plain("terminated", made.terminated);
            plain("truncated", made.truncated);
            plain("ended_by", made.ended_by);
            plain("started", made.started);
            plain("lane", made.lane);
            if (made.ended_by) {
                auto const known = {"terminated", "truncated", "reset", "close", "crash"};
                if (std::find(known.begin(), known.end(), *made.ended_by) == known.end()) {
                    throw error("malformed", file_, "ended_by", "", quoted(*made.ended_by));
                }
            }
            if (json const* seed = source.find("seed")) {
                if (!seed->is_integer()) throw error("malformed", file_, "seed", "an integer", shown(seed));
                made.seed = at(std::string("seed"), [&] { return single(*seed, 0); });
            }
            if (auto const* headless = member<bool>(source, "headless", file_, true)) made.headless = *headless;
            if (auto const* gaps = member<json::list>(source, "gaps", file_, true)) {
                for (json const& gap : *gaps) {
                    auto const* step = gap.get<std::int64_t>();
                    if (step == nullptr || *step < 0) throw error("malformed", file_, "gaps", "numbers of steps", shown(&gap));
                    made.gaps.push_back(*step);
                }
            }
            if (json const* options = source.find("options")) made.options = at(std::string("options"), [&] { return single(*options, 0); });
            if (source.find("timestamps") != nullptr) made.timestamps = column_of("timestamps");
            if (json const* infos = source.find("infos")) made.infos = read_infos(*infos, made.observations.rows());
            if (json const* frames = source.find("frames")) made.frames = read_frames(*frames, made.observations.rows());
        }
        check_rows("actions", made.actions.rows(), made.size());
        check_rows("observations", made.observations.rows(), made.size() + (made.headless ? 0 : 1));
        return made;
    }

    static void check_rows(char const* field, std::uint64_t found, std::uint64_t expected) {
        if (found != expected) throw error("wrong number of rows", "", field, std::to_string(expected), std::to_string(found));
    }

    void check_depth(int depth) const {
        if (depth >= max_depth) throw error("nested too deeply", file_, "", "at most " + std::to_string(max_depth) + " levels");
    }

    /// What an object is: 'a'rray, 't'uple, 'd'ict or plain 'o'bject. Old versions have no type but ndarray.
    char kind(json const& object, int depth) const {
        json const* type = object.find("__type");
        auto const* name = type == nullptr ? nullptr : type->get<std::string>();
        if (name != nullptr && *name == "ndarray") return 'a';
        check_depth(depth);
        if (type == nullptr || header_.version < 2) return 'o';
        if (name != nullptr && *name == "tuple") return 't';
        if (name != nullptr && *name == "dict") return 'd';
        throw error("unknown", file_, "__type", "ndarray, tuple or dict", shown(type));
    }

    /// A member of an episode: one row per step.
    value column(json const* source, int depth) {
        if (auto const* rows = source == nullptr ? nullptr : source->get<json::list>()) {
            list_value made;
            for (std::size_t i = 0; i < rows->size(); ++i) {
                made.items.push_back(at(i, [&] { return single((*rows)[i], depth); }));
            }
            return value{std::move(made)};
        }
        if (source == nullptr || source->get<json::object>() == nullptr) {
            throw error("malformed", file_, "", "an array record, object or list", shown(source));
        }
        char type = kind(*source, depth);
        if (type == 'a') {
            gym_recording::array rows = read_array(*source);
            if (rows.shape().empty()) throw error("an array without rows", file_, "shape");
            return value{std::move(rows)};
        }
        value made;
        std::set<std::uint64_t> lengths;
        if (type == 't') {
            tuple_value tuple;
            auto const& items = *member<json::list>(*source, "items", file_);
            for (std::size_t i = 0; i < items.size(); ++i) {
                tuple.items.push_back(at(i, [&] { return column(&items[i], depth + 1); }));
                lengths.insert(tuple.items.back().rows());
            }
            made = value{std::move(tuple)};
        } else {
            dict_value dict;
            each_member(*source, type, [&](value key, auto const& where, json const& item) {
                dict.items.emplace_back(std::move(key), at(where, [&] { return column(&item, depth + 1); }));
                lengths.insert(dict.items.back().second.rows());
            });
            made = value{std::move(dict)};
        }
        if (lengths.size() != 1) throw error("the columns of a dict or tuple differ in length, or there are none", file_);
        return made;
    }

    /// One value: of one step, or options.
    value single(json const& source, int depth) {
        if (auto const* items = source.get<json::list>()) {
            check_depth(depth);
            return value{list_value{singles(*items, depth)}};
        }
        if (source.get<json::object>() != nullptr) {
            char type = kind(source, depth);
            if (type == 'a') return value{read_array(source)};
            if (type == 't') return value{tuple_value{singles(*member<json::list>(source, "items", file_), depth)}};
            dict_value dict;
            each_member(source, type, [&](value key, auto const& where, json const& item) {
                dict.items.emplace_back(std::move(key), at(where, [&] { return single(item, depth + 1); }));
            });
            return value{std::move(dict)};
        }
        if (auto const* b = source.get<bool>()) return value{*b};
        if (auto const* n = source.get<std::int64_t>()) return value{*n};
        if (auto const* n = source.get<big_integer>()) return value{*n};
        if (auto const* d = source.get<double>()) return value{*d};
        if (auto const* text = source.get<std::string>()) return value{*text};
        return value{};
    }

    std::vector<value> singles(json::list const& items, int depth) {
        std::vector<value> made;
        made.reserve(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            made.push_back(at(i, [&] { return single(items[i], depth + 1); }));
        }
        return made;
    }

    /// Calls `each(key, where, item)` for the members of an object, or of a dict whose keys JSON objects cannot have.
    template <class Each>
    void each_member(json const& source, char type, Each each) {
        if (type == 'o') {
            for (auto const& [key, item] : *source.get<json::object>()) each(value{key}, key, item);
            return;
        }
        std::set<std::string> seen;
        for (json const& pair : *member<json::list>(source, "items", file_)) {
            auto const* parts = pair.get<json::list>();
            if (parts == nullptr || parts->size() != 2 || !is_key((*parts)[0])) {
                throw error("malformed", file_, "items", "[key, value]", shown(&pair));
            }
            json const& key = (*parts)[0];
            if (!seen.insert(key_identity(&key)).second) throw error("a key stands twice", file_, "items", "", shown(&key));
            each(single(key, 0), &key, (*parts)[1]);
        }
    }

    static bool is_key(json const& key) { return key.get<json::list>() == nullptr && key.get<json::object>() == nullptr; }

    std::vector<info_column> read_infos(json const& source, std::uint64_t rows) {
        std::vector<info_column> made;
        std::set<std::string> seen;
        for (json const& entry : entries_of(source, rows, "infos")) {
            json const* key = entry.find("key");
            if (entry.get<json::object>() == nullptr || (key != nullptr && !is_key(*key))) {
                throw error("malformed", file_, "infos", "key, rows, values", shown(&entry));
            }
            if (!seen.insert(key_identity(key)).second) throw error("a key stands twice", file_, "infos", "", shown(key));
            info_column one = sparse(entry, rows, "infos", "infos." + shown(key));
            if (key != nullptr) one.key = single(*key, 0);
            made.push_back(std::move(one));
        }
        return made;
    }

    /// The frames of each size, as one column.
    value read_frames(json const& source, std::uint64_t rows) {
        auto const& entries = entries_of(source, rows, "frames");
        list_value made;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (entries[i].get<json::object>() == nullptr) throw error("malformed", file_, "frames", "rows, values", shown(&entries[i]));
            std::string where = "frames" + part(i);
            info_column one = sparse(entries[i], rows, "frames", where);
            auto const* pictures = std::get_if<gym_recording::array>(&one.values.data);
            auto const is_picture = [](gym_recording::array const& a) {
                auto const& shape = a.shape();
                bool some = std::find(shape.begin(), shape.end(), std::uint64_t(0)) == shape.end();
                return some && (shape.size() == 3 || shape.size() == 4) && element<std::uint8_t>::fits(a.dtype()) && a.dtype().view.empty();
            };
            if (pictures == nullptr || !is_picture(*pictures)) {
                throw error("malformed", file_, where + ".values", "uint8, (n, height, width) or (n, height, width, channels)");
            }
            bool is_each = entries.size() == 1 && one.rows.size() == rows;
            for (std::size_t k = 0; is_each && k < one.rows.size(); ++k) is_each = std::uint64_t(one.rows[k]) == k;
            if (is_each) return std::move(one.values);
            made.items.resize(std::size_t(rows));
            for (std::size_t k = 0; k < one.rows.size(); ++k) {
                value& frame = made.items[std::size_t(one.rows[k])];
                if (!frame.is_null()) throw error("a row stands twice", file_, where + ".rows", "", std::to_string(one.rows[k]));
                frame = one.values.row(k);
            }
        }
        made.items.resize(std::size_t(rows));
        return value{std::move(made)};
    }

    /// The entries of infos or frames, if so many rows may have an object each.
    json::list const& entries_of(json const& source, std::uint64_t rows, char const* field) {
        auto const* entries = source.get<json::list>();
        if (entries == nullptr) throw error("malformed", file_, field, "a list", shown(&source));
        std::uint64_t most = free_rows;
        for (auto const& [name, count] : asked_) most += count;
        if (rows > most) {
            throw error("more rows than its arrays can have", file_, field, "at most " + std::to_string(most), std::to_string(rows));
        }
        return *entries;
    }

    /// The rows that an entry has values for, and these.
    info_column sparse(json const& entry, std::uint64_t rows, std::string const& field, std::string const& where) {
        info_column one;
        value places = at(where + ".rows", [&] { return column(entry.find("rows"), 1); });
        one.values = at(where + ".values", [&] { return column(entry.find("values"), 1); });
        auto const* numbers = std::get_if<gym_recording::array>(&places.data);
        if (numbers == nullptr || !element<std::int64_t>::fits(numbers->dtype()) || numbers->shape().size() != 1 ||
            numbers->shape()[0] != one.values.rows()) {
            throw error("malformed", file_, field + ".rows", "int64, one per value");
        }
        for (std::int64_t row : numbers->as<std::int64_t>()) {
            if (row < 0 || std::uint64_t(row) >= rows) {
                throw error("no such row", file_, field + ".rows", "less than " + std::to_string(rows), std::to_string(row));
            }
            one.is_ascending = one.is_ascending && (one.rows.empty() || one.rows.back() <= row);
            one.rows.push_back(row);
        }
        return one;
    }

    gym_recording::array read_array(json const& record) {
        json const* size_member = record.find("size");
        if (header_.version >= 2 && size_member == nullptr) {  // else it would be taken for one of version 0
            throw error("malformed", file_, "size", "a length", "nothing");
        }
        json const* blob_member = record.find("npyfile");
        auto const* blob_name = blob_member == nullptr ? nullptr : blob_member->get<std::string>();
        blob_entry const* entry = nullptr;
        if (header_.version >= 2) {
            auto found = blob_name == nullptr ? header_.blobs.end() : header_.blobs.find(*blob_name);
            if (found == header_.blobs.end()) throw error("not a blob of this batch", file_, "npyfile", "", shown(blob_member));
            entry = &found->second;
        }
        std::vector<std::uint64_t> shape;
        json const* shape_member = record.find("shape");
        auto const* lengths = shape_member == nullptr ? nullptr : shape_member->get<json::list>();
        bool is_shape = lengths != nullptr && lengths->size() <= max_ndim;
        for (std::size_t i = 0; is_shape && i < lengths->size(); ++i) {
            auto const* length = (*lengths)[i].get<std::int64_t>();
            is_shape = length != nullptr && *length >= 0;
            if (is_shape) shape.push_back(std::uint64_t(*length));
        }
        if (!is_shape) throw error("malformed", file_, "shape", "a list of lengths", shown(shape_member));
        if (json const* order = record.find("order")) {
            auto const* text = order->get<std::string>();
            if (text == nullptr || *text != "C") throw error("malformed", file_, "order", "C", shown(order));
        }
        std::string const& text = *member<std::string>(record, "dtype", file_);
        std::shared_ptr<dtype const> type = named_dtype(text);
        auto offset = std::uint64_t(*member<std::int64_t>(record, "npyoff", file_));
        member<std::string>(record, "npyfile", file_);
        auto name = parse_name(*blob_name);
        if (!name || name->kind != 'b') throw error("not the name of a blob", file_, "npyfile", "", quoted(*blob_name));
        std::shared_ptr<file_bytes const> blob = blob_(*blob_name);
        bytes_view data = blob->view();
        bool is_fortran = false;
        if (size_member == nullptr) skip_npy_header(data, offset, is_fortran, *type, shape, *blob_name);

        std::uint64_t extent = std::max<std::uint64_t>(type->size, 1);  // without the lengths of 0, as strides are
        for (std::uint64_t length : shape) {
            auto next = checked_product(extent, std::max<std::uint64_t>(length, 1));
            if (!next) throw error("no such array: it is too large", file_, "shape", "", shown(shape_member));
            extent = *next;
        }
        bool is_empty = type->size == 0 || std::find(shape.begin(), shape.end(), 0U) != shape.end();
        std::uint64_t size = is_empty ? 0 : extent;
        if (size_member != nullptr) {
            auto const* stated = size_member->get<std::int64_t>();
            if (stated == nullptr || *stated < 0 || std::uint64_t(*stated) != size) {
                throw error("wrong size", file_, "size", std::to_string(size), shown(size_member));
            }
        }
        if (offset + size > data.size()) {  // both are below 2^63
            throw error("the array is not wholly there", *blob_name, "", std::to_string(offset + size) + " bytes", std::to_string(data.size()) + " bytes");
        }
        json const* view = record.find("view");
        if (view != nullptr && !view->is_null()) {
            auto const* word = view->get<std::string>();
            if (word == nullptr || !is_view_of(*word, *type)) throw error("malformed", file_, "view", "a view of its dtype", shown(view));
            auto viewed = std::make_shared<dtype>(*type);
            viewed->view = *word;
            type = viewed;
        }
        if (entry != nullptr && offset + size > entry->size) {
            throw error("the array is not wholly in what counts of its blob", file_, "npyoff");
        }
        std::uint64_t& asked = asked_[*blob_name];
        if (seen_.emplace(*blob_name, offset, size).second) asked += size;  // the same bytes count once
        if (asked > data.size()) {
            throw error("the arrays of an episode are larger than the blob they lie in", file_, "size");
        }
        return {blob, data.data() + offset, type, std::move(shape), is_fortran};
    }

    std::shared_ptr<dtype const> named_dtype(std::string const& text) {
        auto& cached = dtypes_[text];
        if (cached == nullptr) {
            auto characters = std::size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
            try {
                if (characters > max_dtype_text) throw bad_literal{};
                cached = std::make_shared<dtype>(parse_dtype(text, 0));
            } catch (bad_literal const&) {
                throw error("the dtype is not allowed", file_, "dtype", "a number, bool, text or structured dtype", quoted(text));
            }
        }
        return cached;
    }

    /// Moves `offset` from a .npy header to the elements behind it.
    static void skip_npy_header(bytes_view data, std::uint64_t& offset, bool& is_fortran, dtype const& type,
                                std::vector<std::uint64_t> const& shape, std::string const& blob) {
        std::string field = "offset " + std::to_string(offset);
        auto fail = [&](char const* problem) { throw error(std::string("not a .npy header: ") + problem, blob, field); };
        if (offset >= data.size()) fail("behind the end");
        bytes_view rest = data.substr(std::size_t(offset));
        if (rest.substr(0, 6) != bytes_view("\x93NUMPY", 6) || rest.size() < 10) fail("another magic");
        auto byte = [&](std::size_t i) { return std::size_t(static_cast<unsigned char>(rest[i])); };
        std::size_t start = 10, length = byte(8) | byte(9) << 8;
        if (byte(7) != 0 || (byte(6) != 1 && byte(6) != 2)) fail("another version");
        if (byte(6) == 2) {
            if (rest.size() < 12) fail("cut short");
            start = 12;
            length |= byte(10) << 16 | byte(11) << 24;
        }
        constexpr std::size_t most = 65536;  // more than a dtype that is allowed needs
        if (length > most || rest.size() - start < length) fail("cut short, or too long");
        std::string text;  // of Latin-1
        for (char c : rest.substr(start, length)) append_utf8(text, static_cast<unsigned char>(c));
        dtype found;
        literal header;
        try {
            header = literal_parser(text).parse_all();
            if (header.kind != 'd' || header.items.size() != 6) throw bad_literal{};
            found = build_dtype(literal_at(header, "descr"), 0);
            literal const& order = literal_at(header, "fortran_order");
            literal const& lengths = literal_at(header, "shape");
            if (order.kind != 'b' || lengths.kind != 't') throw bad_literal{};
            is_fortran = order.number != 0;
            bool same = lengths.items.size() == shape.size() && same_dtype(found, type);
            for (std::size_t i = 0; i < lengths.items.size(); ++i) {
                if (lengths.items[i].kind != 'i') throw bad_literal{};
                same = same && lengths.items[i].number >= 0 && std::uint64_t(lengths.items[i].number) == shape[i];
            }
            if (!same) throw error("the .npy header differs", blob, field, type.text.substr(0, 80), found.text.substr(0, 80));
        } catch (bad_literal const&) {
            fail("malformed");
        }
        offset += start + length;
    }
};

// ---- what one look at a directory shows

inline std::int64_t saturated_add(std::int64_t a, std::int64_t b) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return a > most - b ? most : a + b;
}

inline batch missing_batch(std::string file, std::int64_t first, std::int64_t count) {
    std::string span = std::to_string(first) + ".." + std::to_string(saturated_add(first, count) - 1);
    error problem("episodes " + span + " are missing", file, "", "this header", "", true);
    return {std::move(file), first, count, std::move(problem)};
}

}  // namespace detail

// ---- reading

/// How to read.
struct options {
    bool skip = false;    ///< leave out batches that are missing or damaged, and list them in `errors()`
    bool verify = false;  ///< compare the checksums of blobs too; those of documents always are
    bool map = true;      ///< false reads blobs into memory: for places where others truncate files
};

/// The episodes of a recording, in order. One that does not exist has none. Throws `error` alone.
class reader {
public:
    explicit reader(std::string directory, options how = {}) : directory_(std::move(directory)), how_(how) { refresh(); }

    /// Looks at the directory anew. Iterators are void then; episodes and arrays are not.
    void refresh() {
        headers_.clear();
        errors_.clear();
        for (int n = 0; n < detail::listings; ++n) {
            look();
            bool is_missing = false;
            for (trace const& t : traces_) {
                is_missing = is_missing || std::any_of(t.batches.begin(), t.batches.end(), [](batch const& b) { return b.problem && b.problem->missing; });
            }
            if (!is_missing) break;
        }
        if (how_.skip) {
            for (trace const& t : traces_) {
                if (t.problem) errors_.push_back(*t.problem);
            }
            for (trace& t : traces_) {
                auto is_bad = [this](batch const& b) { return !is_good(b); };
                t.batches.erase(std::remove_if(t.batches.begin(), t.batches.end(), is_bad), t.batches.end());
            }
        }
        numbered_.clear();
        count_ = 0;
        for (std::size_t i = 0; i < traces_.size(); ++i) {
            for (std::size_t k = 0; k < traces_[i].batches.size(); ++k) {
                numbered_.push_back({count_, i, k});
                count_ = detail::saturated_add(count_, traces_[i].batches[k].count);
            }
        }
    }

    std::vector<trace> const& traces() const { return traces_; }

    /// With `options::skip`, why what was left out was left out.
    std::vector<error> const& errors() const { return errors_; }

    /// How many episodes there are, those that are missing or damaged included.
    std::uint64_t size() const { return std::uint64_t(count_); }

    episode operator[](std::uint64_t i) const {
        if (i >= size()) throw error("no such episode", directory_, "", "less than " + std::to_string(size()), std::to_string(i));
        auto after = std::upper_bound(numbered_.begin(), numbered_.end(), i, [](std::uint64_t n, place const& p) { return n < std::uint64_t(p.start); });
        place const& p = *std::prev(after);
        return read(traces_[p.trace].batches[p.batch], std::int64_t(i) - p.start);
    }

    /// Goes through the episodes, and reads one at a time.
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = episode;
        using difference_type = std::ptrdiff_t;
        using pointer = episode const*;
        using reference = episode const&;

        iterator() = default;
        explicit iterator(reader const* from) : reader_(from) { load(); }
        reference operator*() const { return *current_; }
        pointer operator->() const { return current_.get(); }
        iterator& operator++() {
            ++number_;
            load();
            return *this;
        }
        iterator operator++(int) {
            iterator before = *this;
            ++*this;
            return before;
        }
        friend bool operator==(iterator const& a, iterator const& b) {
            return a.reader_ == b.reader_ && a.trace_ == b.trace_ && a.batch_ == b.batch_ && a.number_ == b.number_;
        }
        friend bool operator!=(iterator const& a, iterator const& b) { return !(a == b); }

    private:
        reader const* reader_ = nullptr;  // none at the end
        std::size_t trace_ = 0, batch_ = 0;
        std::int64_t number_ = 0;
        std::shared_ptr<episode const> current_;

        void load() {
            current_.reset();
            for (; trace_ < reader_->traces_.size(); ++trace_, batch_ = 0, number_ = 0) {
                trace const& t = reader_->traces_[trace_];
                if (t.problem && !reader_->how_.skip) throw error(*t.problem);
                for (; batch_ < t.batches.size(); ++batch_, number_ = 0) {
                    if (number_ < t.batches[batch_].count) {
                        current_ = std::make_shared<episode>(reader_->read(t.batches[batch_], number_));
                        return;
                    }
                }
            }
            *this = iterator();
        }
    };

    iterator begin() const { return iterator(this); }
    iterator end() const { return {}; }

private:
    struct place {
        std::int64_t start;
        std::size_t trace, batch;
    };
    template <class T>
    using cache = std::list<std::pair<std::string, std::shared_ptr<T const>>>;  // the last used first

    std::string directory_;
    options how_;
    std::vector<trace> traces_;
    std::vector<error> errors_;
    std::vector<place> numbered_;
    std::int64_t count_ = 0;
    mutable cache<detail::header> headers_;
    mutable cache<detail::file_bytes> blobs_;

    template <class T>
    static std::shared_ptr<T const> cached(cache<T>& from, std::string const& name) {
        for (auto it = from.begin(); it != from.end(); ++it) {
            if (it->first == name) {
                from.splice(from.begin(), from, it);
                return from.front().second;
            }
        }
        return nullptr;
    }

    template <class T>
    static void keep(cache<T>& in, std::string const& name, std::shared_ptr<T const> item, std::size_t most) {
        in.emplace_front(name, std::move(item));
        if (in.size() > most) in.pop_back();
    }

    template <class T>
    static void forget(cache<T>& in, std::string const& name) {
        in.remove_if([&](auto const& entry) { return entry.first == name; });
    }

    std::shared_ptr<detail::file_bytes const> blob(std::string const& name) const {
        auto found = cached(blobs_, name);
        if (found == nullptr) {
            found = detail::read_file(directory_, name, how_.map);
            if (found == nullptr) throw error("the blob is missing, and its episodes with it", name, "", "", "", true);
            keep(blobs_, name, found, detail::cached_blobs);
        }
        return found;
    }

    std::shared_ptr<detail::header const> read_header(std::string const& file) const {
        auto bytes = detail::read_file(directory_, file, false, detail::max_json_bytes);
        if (bytes == nullptr) throw error("the header is missing, and its episodes with it", file, "", "", "", true);
        auto header = detail::read_header(bytes->view(), file);
        if (header->first && *header->first != detail::parse_name(file)->first) {
            throw error("not the batch of this name", file, "first", "", std::to_string(*header->first));
        }
        for (auto const& [name, entry] : header->blobs) {
            auto data = blob(name);
            if (data->view().size() < entry.size) {  // perhaps it has grown since it was mapped
                forget(blobs_, name);
                data = blob(name);
            }
            std::uint64_t there = data->view().size();
            if (there < entry.size) {
                throw error("cut short", name, "", std::to_string(entry.size) + " bytes", std::to_string(there) + " bytes");
            }
            if (how_.verify) {
                std::uint64_t start = std::min(entry.start, entry.size);
                std::string actual = detail::hex8(detail::crc32(data->view().substr(std::size_t(start), std::size_t(entry.size - start))));
                if (actual != entry.crc32) throw error("damaged", name, "crc32", entry.crc32.substr(0, 80), actual);
            }
        }
        return header;
    }

    std::shared_ptr<detail::header const> header_of(batch const& b) const {
        auto found = cached(headers_, b.file);
        if (found != nullptr) return found;
        if (b.problem) throw error(*b.problem);
        found = read_header(b.file);
        if (found->episodes().size() != std::uint64_t(b.count)) {
            throw error("not the episodes that the manifest lists", b.file, "", std::to_string(b.count), std::to_string(found->episodes().size()));
        }
        keep(headers_, b.file, found, detail::cached_headers);
        return found;
    }

    episode read(batch const& b, std::int64_t number) const {
        auto once = [&] {
            auto header = header_of(b);
            return detail::decoder(*header, [this](std::string const& name) { return blob(name); }).read(std::size_t(number));
        };
        try {
            return once();
        } catch (error const& problem) {
            if (!problem.missing || b.problem) throw;
        }
        forget(headers_, b.file);  // a column of a running episode may have another blob since its header was read
        return once();
    }

    bool is_good(batch const& b) {
        try {
            for (std::int64_t n = 0; n < b.count; ++n) read(b, n);
        } catch (error const& problem) {
            errors_.push_back(problem);
            return false;
        }
        return true;
    }

    // ---- the look at the directory

    struct found_files {
        std::string manifest;
        std::vector<std::pair<std::string, std::int64_t>> headers;  // by name: the number of the first episode
    };

    void look() {
        std::map<std::string, found_files> found;
        for (std::string const& file : detail::list_directory(directory_)) {
            auto name = detail::parse_name(file);
            if (!name || name->kind == 'b') continue;
            found_files& of = found[name->trace];
            if (name->kind == 'm') {
                of.manifest = file;
            } else {
                of.headers.emplace_back(file, name->first);
            }
        }
        traces_.clear();
        for (auto const& [name, files] : found) traces_.push_back(make_trace(name, files));
        std::stable_sort(traces_.begin(), traces_.end(), [](trace const& a, trace const& b) {
            return a.created != b.created ? a.created < b.created : detail::natural_less(a.name, b.name);
        });
    }

    trace make_trace(std::string const& name, found_files const& files) const {
        trace made;
        made.name = name;
        std::map<std::string, std::int64_t> listed;
        if (!files.manifest.empty()) {
            try {
                listed = read_manifest(made, files.manifest);
            } catch (error const& problem) {
                made.problem = problem;  // the headers say all that it did, but for what is the trace's own
            }
        }
        std::map<std::string, std::int64_t> firsts(files.headers.begin(), files.headers.end());
        std::set<std::string> there;
        for (auto const& header : files.headers) there.insert(header.first);
        for (auto const& entry : listed) firsts.emplace(entry.first, detail::parse_name(entry.first)->first);
        std::vector<std::pair<std::string, std::int64_t>> ordered(firsts.begin(), firsts.end());
        std::stable_sort(ordered.begin(), ordered.end(), [](auto const& a, auto const& b) { return a.second < b.second; });
        std::int64_t end = 0;
        for (auto const& [file, first] : ordered) {
            auto entry = listed.find(file);
            batch one = make_batch(file, first, entry == listed.end() ? nullptr : &entry->second, there.count(file) != 0);
            if (!made.batches.empty() && made.batches.back().count == 0) {  // its header is damaged: this one tells
                batch& previous = made.batches.back();
                previous.count = std::max<std::int64_t>(1, first - previous.first);
                end = previous.first + previous.count;
            }
            if (detail::is_current(name) && first != end) {
                if (first > end) {
                    std::string digits = std::to_string(end);
                    digits.insert(0, digits.size() < 9 ? 9 - digits.size() : 0, '0');
                    made.batches.push_back(detail::missing_batch(name + ".ep" + digits + ".json", end, first - end));
                } else {
                    one.problem = error("overlaps the batch before it", file, "", "first " + std::to_string(end));
                }
            }
            end = first + one.count;
            made.batches.push_back(std::move(one));
        }
        if (!made.batches.empty() && made.batches.back().count == 0) made.batches.back().count = 1;
        return made;
    }

    batch make_batch(std::string const& file, std::int64_t first, std::int64_t const* count, bool is_there) const {
        if (!is_there) return detail::missing_batch(file, first, count == nullptr ? 0 : *count);
        if (count != nullptr) return {file, first, *count, std::nullopt};
        try {
            return {file, first, std::int64_t(read_header(file)->episodes().size()), std::nullopt};
        } catch (error const& problem) {
            return {file, first, 0, problem};
        }
    }

    /// What a manifest says of its trace, and the headers that it lists, with the number of their episodes.
    std::map<std::string, std::int64_t> read_manifest(trace& made, std::string const& file) const {
        using detail::member;
        auto bytes = detail::read_file(directory_, file, false, detail::max_json_bytes);
        if (bytes == nullptr) throw error("cannot be opened: it is gone", file);
        int version = 0;
        json document = detail::read_document(bytes->view(), file, version);
        std::map<std::string, std::int64_t> listed;
        auto const& entries = *member<json::list>(document, "batches", file);
        for (json const& entry : entries) {
            if (entry.get<json::object>() == nullptr) throw error("malformed", file, "batches", "objects", detail::shown(&entry));
            std::string const& fn = *member<std::string>(entry, "fn", file);
            auto name = detail::parse_name(fn);
            if (!name || name->kind != 'h') throw error("not the name of a header", file, "batches.fn", "", detail::quoted(fn));
            std::int64_t count = *member<std::int64_t>(entry, "len", file);
            if (count > detail::max_episodes) throw error("too many episodes", file, "batches.len", "", std::to_string(count));
            json const* first = entry.find("first");  // version 1 wrote null after a user threw the buffer away
            auto const* large = first == nullptr ? nullptr : first->get<big_integer>();  // nobody looks at it
            if (first != nullptr && !first->is_null() && (large == nullptr || large->digits[0] == '-')) {
                member<std::int64_t>(entry, "first", file);
            }
            if (name->trace != made.name || !listed.emplace(fn, count).second) {
                throw error("not a batch of this trace, or listed twice", file, "batches.fn", "", detail::quoted(fn));
            }
        }
        if (auto const* created = member<std::string>(document, "created", file, true)) made.created = *created;
        if (auto const* closed = member<bool>(document, "closed", file, true)) made.closed = *closed;
        if (auto const* repaired = member<std::string>(document, "repaired", file, true)) made.repaired = *repaired;
        for (auto const& [key, to] : {std::pair<char const*, json*>{"writer", &made.writer}, {"env", &made.env}}) {
            if (member<json::object>(document, key, file, true) != nullptr) *to = *document.find(key);
        }
        if (json const* metadata = document.find("metadata")) made.metadata = *metadata;
        return listed;
    }
};

}  // namespace gym_recording

#endif
