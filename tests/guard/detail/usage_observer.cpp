// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/usage_observer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "support/catch.hpp"

using cuota::detail::deliver;
using cuota::detail::usage_observer;

namespace {

struct listener final : usage_observer {
    listener(std::string& heard, char name) : heard_{heard}, name_{name} {}
    bool note(cuota::detail::usage_sample const&) noexcept override { return true; }
    void deliver() noexcept override {
        heard_ += name_;
        if (then) std::exchange(then, nullptr)();
    }

    std::function<void()> then;

private:
    std::string& heard_;
    char name_;
};

}  // namespace

TEST_CASE("observers that are due are called once, in order", "[guard][usage_observer]") {
    std::string heard;
    listener a{heard, 'a'}, b{heard, 'b'}, c{heard, 'c'};
    a.next_due = &b;
    b.next_due = &c;
    deliver(&a);
    REQUIRE(heard == "abc");
}

TEST_CASE("observers that become due in a call wait for those before them", "[guard][usage_observer]") {
    std::string heard;
    listener a{heard, 'a'}, b{heard, 'b'}, c{heard, 'c'}, d{heard, 'd'};
    a.next_due = &b;
    a.then = [&] {
        c.next_due = &d;
        deliver(&c);
        heard += '(';  // c and d were not called inside this call
    };
    d.then = [&] {
        a.next_due = nullptr;
        deliver(&a);  // although no call is waiting, and a second time for a
    };
    deliver(&a);
    REQUIRE(heard == "a(bcda");
    b.next_due = nullptr;
    deliver(&b);
    REQUIRE(heard == "a(bcdab");
}

TEST_CASE("a usage_observer may be destroyed in its own call", "[guard][usage_observer]") {
    std::string heard;
    auto a = std::make_unique<listener>(heard, 'a');
    listener b{heard, 'b'};
    a->next_due = &b;
    a->then = [&] { a.reset(); };
    deliver(a.get());
    REQUIRE(heard == "ab");
}
