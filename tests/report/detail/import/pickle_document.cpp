// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/report/detail/import/pickle_document.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using cuota::detail::pickle_document;
using cuota::detail::pickle_kind;
using cuota::detail::pickle_value;
using support::has;
using support::thrown;
using namespace std::string_literals;

namespace {

template <class Action>
std::string refusal_of(Action action) {
    return thrown<cuota::data_error>(action).what();
}

std::span<std::byte const> bytes_of(std::string const& text) {
    return std::as_bytes(std::span{text.data(), text.size()});
}

// Protocol 2 around opcodes.
std::string pickle(std::string const& opcodes) { return "\x80\x02"s + opcodes + "."; }

std::string failure_of(std::string const& file) {
    return refusal_of([&] { (void)pickle_document{bytes_of(file), "f.pickle"}; });
}

std::vector<pickle_value> elements(pickle_value list) {
    std::vector<pickle_value> all;
    list.each("the list", [&](pickle_value v) { all.push_back(v); });
    return all;
}

}  // namespace

TEST_CASE("integers of every encoding are read", "[report][pickle]") {
    struct sample {
        std::string opcodes;
        std::uint64_t bits;
    };
    sample const samples[]{{"K\xff"s, 255},
                           {"M\x01\x02"s, 0x201},
                           {"J\xff\xff\xff\x7f"s, 0x7fffffff},
                           {"J\xfe\xff\xff\xff"s, ~std::uint64_t{1}},
                           {"\x8a\x00"s, 0},
                           {"\x8a\x01\x80"s, ~std::uint64_t{127}},
                           {"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x40"s, std::uint64_t{1} << 62},
                           {"\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x00"s, (std::uint64_t{1} << 63) + 1},
                           {"\x8b\x02\x00\x00\x00\x34\x12"s, 0x1234}};
    for (sample const& s : samples) {
        std::string const file = pickle(s.opcodes);
        pickle_document const d{bytes_of(file), "f"};
        CHECK(d.root().bits("it") == s.bits);
        CHECK(d.root().offset() == 2);
    }
    std::string const negative = pickle("J\xff\xff\xff\xff"s);
    pickle_document const d{bytes_of(negative), "f"};
    CHECK(has(refusal_of([&] { (void)d.root().size("the size"); }), "the size is negative"));
}

TEST_CASE("lists, tuples and dicts are read, also in several parts", "[report][pickle]") {
    // [1, (2, None), {"a": True, "a": False}, "x"], with the list stored and extended afterwards
    std::string const file = pickle("]q\x00(K\x01K\x02N\x86}(U\x01"
                                    "a\x88X\x01\x00\x00\x00"
                                    "a\x89uh\x00"
                                    "0eh\x00"
                                    "0\x8c\x01xa"s);
    pickle_document const d{bytes_of(file), "f"};
    auto const all = elements(d.root());
    REQUIRE(all.size() == 4);
    CHECK(all[0].size("it") == 1);
    CHECK(all[1].kind() == pickle_kind::tuple);
    CHECK(elements(all[1])[1].kind() == pickle_kind::none);
    CHECK(!all[2].at("a", "a dict").truth("a"));  // the last one, as in Python
    CHECK(!all[2].find("b"));
    CHECK(all[3].text("it") == "x");
    CHECK(has(refusal_of([&] { (void)all[2].at("b", "a dict"); }), "a dict has no 'b'"));
    CHECK(has(refusal_of([&] { (void)all[3].size("it"); }), "it is text; expected an integer"));
}

TEST_CASE("a dict is searched up to a thousand entries", "[report][pickle]") {
    auto const dict_of = [](std::size_t entries) {
        std::string opcodes = "}U\x01"s
                              "aq\x00"
                              "0(";
        for (std::size_t i = 0; i != entries; ++i) opcodes += "h\x00N"s;
        return pickle(opcodes + "u");
    };
    std::string const allowed = dict_of(1000);
    std::string const refused = dict_of(1001);
    pickle_document const d{bytes_of(allowed), "f"};
    CHECK(d.root().find("a"));
    pickle_document const e{bytes_of(refused), "f"};
    CHECK(has(refusal_of([&] { (void)e.root().find("a"); }), "more than 1'000 entries"));
}

TEST_CASE("a value that is stored twice is one object", "[report][pickle]") {
    std::string const file = pickle("](]q\x05h\x05"
                                    "e"s);
    pickle_document const d{bytes_of(file), "f"};
    auto const all = elements(d.root());
    REQUIRE(all.size() == 2);
    CHECK(all[0].number() == all[1].number());
}

TEST_CASE("a list that contains itself is read, and its reader meets a kind that it does not expect",
          "[report][pickle]") {
    std::string const file = pickle("]q\x00h\x00"
                                    "a"s);
    pickle_document const d{bytes_of(file), "f"};
    auto const all = elements(d.root());
    REQUIRE(all.size() == 1);
    CHECK(all[0].number() == d.root().number());
    CHECK(has(refusal_of([&] { (void)all[0].at("x", "an entry"); }), "an entry is a list; expected a dict"));
}

TEST_CASE("frames and protocol 4 are read, and what follows the end is ignored", "[report][pickle]") {
    std::string const file = "\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94K\x07"
                             "a.rest"s;
    pickle_document const d{bytes_of(file), "f"};
    CHECK(elements(d.root()).at(0).size("it") == 7);
}

TEST_CASE("a pickle that asks for more than data is refused, and nothing is called", "[report][pickle]") {
    CHECK(has(failure_of(pickle("cos\nsystem\n(X\x02\x00\x00\x00lstR"s)),
              "asks for the class or function os.system"));
    CHECK(has(failure_of(pickle("\x8c\x02os\x8c\x06system\x93"s)), "asks for a class or function"));
    for (std::string const& call : {"R"s, "b"s, "i"s, "o"s, "\x81"s, "\x92"s})
        CHECK(has(failure_of(pickle("NN" + call)), "asks for a call, not for data"));
    CHECK(has(failure_of(pickle("Px\n"s)), "outside of the file"));
    CHECK(has(failure_of(pickle("\x82\x01"s)), "extension registry"));
}

TEST_CASE("a malformed pickle is refused with the offset", "[report][pickle]") {
    struct sample {
        std::string file;
        char const* message;
    };
    sample const samples[]{
        {"", "byte 0: ends before"},
        {"PK\x03\x04", "is not a pickle"},
        {"\x80\x00N."s, "pickle of protocol 0"},
        {"\x80\x06N."s, "pickle of protocol 6"},
        {"\x80\x02"s, "byte 2: ends before"},
        {"\x80\x02X\xff\xff\xff\xff"s, "byte 2: an item of 4'294'967'295 bytes at byte 7 does not fit"},
        {"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s, "does not fit"},
        {"\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00N."s, "a frame of 255 bytes"},
        {pickle("\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x01"s), "more than 64 bits"},
        {pickle("h\x00"s), "reads memo 0, which was not stored"},
        {pickle("Nr\xff\xff\xff\xff"s), "stores memo 4'294'967'295"},
        {pickle(""), "needs 1 values; 0 are there"},
        {pickle("N\x87"s), "needs 3 values; 1 are there"},
        {pickle("(N\x86"s), "needs 2 values; 1 are there"},
        {pickle("e"), "needs a mark"},
        {pickle("N(Ne"), "needs a list, which is not there"},
        {pickle("](Nu"), "needs a dict, which is not there"},
        {pickle("}(Nu"), "a key of a dict has no value"},
        {pickle("NN"), "ends with 1 further values"},
        {pickle("\xff"), "has the opcode 255"},
        {pickle("I1\n"), "has the opcode 73"},
    };
    for (sample const& s : samples) {
        INFO(s.message);
        CHECK(has(failure_of(s.file), s.message));
    }
}

TEST_CASE("any prefix and any changed byte of a pickle is read or refused", "[report][pickle]") {
    std::string const file = pickle("]q\x00(K\x01K\x02N\x86}(U\x01"
                                    "a\x88X\x01\x00\x00\x00"
                                    "a\x89u\x8a\x01\x80G\x3f\xf0\x00\x00\x00\x00\x00\x00h\x00"
                                    "0e"s);
    std::size_t read = 0, refused = 0;
    auto const attempt = [&](std::string const& changed) {
        try {
            (void)pickle_document{bytes_of(changed), "f"};
            ++read;
        } catch (cuota::data_error const&) { ++refused; }
    };
    for (std::size_t end = 0; end != file.size(); ++end) attempt(file.substr(0, end));
    for (std::size_t at = 0; at != file.size(); ++at)
        for (int value = 0; value != 256; ++value) {
            std::string changed = file;
            changed[at] = static_cast<char>(value);
            attempt(changed);
        }
    CHECK(read > 1'000);
    CHECK(refused > 1'000);
}
