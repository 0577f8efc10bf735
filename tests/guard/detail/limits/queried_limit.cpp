// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/limits/queried_limit.hpp>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/guard/detail/ledger.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::detail::ledger;
using cuota::detail::queried_limit;
using node = cuota::detail::intrusive_ptr<ledger>;

namespace {

struct source {
    std::size_t free = 100;
    std::atomic<std::size_t> taken = 0, given_back = 0;
    std::function<void()> meanwhile;
    bool fails = false;
    int queries = 0;
};

class limit final : public queried_limit {
public:
    limit(source& from, std::size_t keep_free, std::chrono::nanoseconds max_age)
        : queried_limit{keep_free, max_age}, from_{from} {}
    [[nodiscard]] std::optional<cuota::device_info> facts() const noexcept override { return std::nullopt; }

private:
    [[nodiscard]] std::size_t free_now() const override {
        ++from_.queries;
        if (from_.fails) throw std::runtime_error{"the query fails"};
        std::size_t const free = from_.free;
        if (from_.meanwhile) from_.meanwhile();
        return free;
    }
    [[nodiscard]] counters own() const noexcept override { return {from_.taken, from_.given_back}; }

    source& from_;
};

node followed_by(source& from, std::size_t keep_free = 0,
                 std::chrono::nanoseconds max_age = std::chrono::nanoseconds{0}) {
    node root = node::make("root", std::size_t{1'000}, node{});
    root->set_outer_limit(cuota::detail::light_unique_ptr<limit>::make(from, keep_free, max_age));
    root->outer()->look(*root);
    return root;
}

}  // namespace

TEST_CASE("the limit is what is free and what the budget holds of it", "[guard][queried_limit]") {
    source from;
    node const root = followed_by(from, 10);
    CHECK(root->limit() == 90);
    REQUIRE(root->try_charge(30));
    from.taken = 30;
    from.free = 70;
    root->outer()->look(*root);
    CHECK(root->limit() == 90);
    from.taken = 50;  // 20 bytes of another budget of this process
    from.free = 50;
    root->outer()->look(*root);
    CHECK(root->limit() == 70);
    from.free = 3;
    root->outer()->look(*root);
    CHECK(root->limit() == 23);
    from.free = 0;
    from.taken = 0;
    root->outer()->look(*root);
    CHECK(root->limit() == 0);
    REQUIRE(root->try_refund(30));
}

TEST_CASE("the limit is at most what it may be", "[guard][queried_limit]") {
    source from;
    node const root = followed_by(from);
    root->outer()->most = 40;
    root->outer()->look(*root);
    CHECK(root->limit() == 40);
}

TEST_CASE("memory that is freed during the query makes the limit too high, not too low",
          "[guard][queried_limit]") {
    source from;
    node const root = followed_by(from);
    REQUIRE(root->try_charge(50));
    from.taken = 50;
    from.free = 50;
    int frees = 0;
    from.meanwhile = [&] {
        if (frees++ != 0) return;
        from.given_back += 20;  // after the query of what is free
        from.taken -= 20;
    };
    root->outer()->look(*root);
    CHECK(root->limit() >= 80);
    from.meanwhile = [&] { from.given_back += 1; };  // never at rest
    root->outer()->look(*root);
    CHECK(root->limit() >= 80);
    REQUIRE(root->try_refund(50));
}

TEST_CASE("a query that fails is reported, and the last limit stays", "[guard][queried_limit]") {
    support::captured_errors errors;
    source from;
    node const root = followed_by(from);
    from.fails = true;
    CHECK_FALSE(root->outer()->look(*root));
    CHECK(root->limit() == 100);
    CHECK(errors.take().size() == 1);
}

TEST_CASE("a figure is used until it is too old, and asked for again before a refusal",
          "[guard][queried_limit]") {
    source from;
    node const root = followed_by(from, 0, std::chrono::hours{24});
    int const before = from.queries;
    REQUIRE(root->try_charge(60));
    from.taken = 60;
    from.free = 400;
    CHECK(from.queries == before);
    CHECK(root->try_charge(60));
    CHECK(from.queries != before);
    CHECK(root->limit() == 460);
    REQUIRE(root->try_refund(120));
}

TEST_CASE("memory of the host is not used up", "[guard][queried_limit]") {
    using cuota::detail::host_margin;
    CHECK(host_margin(std::size_t{16} << 30) == std::size_t{1} << 30);
    CHECK(host_margin(std::size_t{128} << 30) == std::size_t{2} << 30);
    CHECK(host_margin(0) == 0);
}
