// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/detail/ledger.hpp>
#include <cuota/guard/detail/reclaimable_holder.hpp>

#include "support/thrown.hpp"

namespace support {

/// A holder of idle bytes, as a pool is.
class idle_cache final : public cuota::detail::reclaimable_holder {
public:
    idle_cache(cuota::budget b, std::size_t bytes) : budget_{std::move(b)}, cached_{bytes} {
        budget_.charge(bytes);
        cuota::detail::budget_access::node(budget_).join(*this);
    }
    ~idle_cache() {
        cuota::detail::budget_access::node(budget_).leave(*this);
        budget_.refund(cached_);
    }

    std::size_t reclaim(std::size_t wanted) noexcept override {
        requested.push_back(wanted);
        std::size_t const given = gives(wanted);
        cached_ -= given;
        budget_.refund(given);
        if (meanwhile) meanwhile();
        return says_nothing ? 0 : given;
    }
    std::size_t reclaimable(std::size_t wanted) const noexcept override {
        return expects.value_or(gives(wanted));
    }
    int priority() const noexcept override { return rank; }
    std::string title() const override { return name; }
    void allocation_groups(std::vector<cuota::allocation_group>& into) const override {
        into.insert(into.end(), held.begin(), held.end());
    }
    std::size_t largest_free() const noexcept override { return largest; }

    // Rounds up to whole pieces.
    std::size_t gives(std::size_t wanted) const noexcept {
        return std::min({cuota::round_up(wanted, piece), cached_, most_at_once});
    }

    std::string name = "a cache";
    int rank = 0;
    std::size_t piece = 1;
    std::optional<std::size_t> expects;  // overrides the result of reclaimable()
    std::vector<std::size_t> requested;
    std::vector<cuota::allocation_group> held;
    std::size_t most_at_once = cuota::unlimited;
    std::size_t largest = 0;
    bool says_nothing = false;
    std::function<void()> meanwhile;

private:
    cuota::budget budget_;
    std::size_t cached_;
};

using cache_owner = cuota::detail::intrusive_ptr<idle_cache>;
using requested = std::vector<std::size_t>;

template <class... Bytes>
std::array<cache_owner, sizeof...(Bytes)> caches_in(cuota::budget const& b, Bytes... bytes) {
    return {cache_owner::make(b, std::size_t{bytes})...};
}
template <class... Owners>
std::vector<requested> asks_of(Owners const&... caches) {
    return {caches->requested...};
}

/// A charge that is refunded by the destructor.
class charged {
public:
    charged(cuota::budget b, std::size_t bytes) : budget_{std::move(b)}, bytes_{bytes} {
        budget_.charge(bytes);
    }
    charged(charged const&) = delete;
    charged& operator=(charged const&) = delete;
    ~charged() { budget_.refund(bytes_); }

private:
    cuota::budget budget_;
    std::size_t bytes_;
};

inline cuota::budget_exceeded refusal_of(cuota::budget b, std::size_t bytes) {
    return thrown<cuota::budget_exceeded>([&] { b.charge(bytes); });
}

struct one_cache {
    cuota::budget b{"b", 100};
    cache_owner idle = cache_owner::make(b, 60u);
};

}  // namespace support
