// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/guard/detail/resource_adaptor_base.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"

namespace {

std::vector<std::string> made;      // calls that upstream received
std::vector<cudaStream_t> streams;  // their streams

// Records its calls as text.
struct told {
    void* allocate(cuota::stream_ref s, std::size_t n, std::size_t a, cuota::label const& who = {}) {
        streams.push_back(s.get());
        return note("allocate", n, a, who.name.text());
    }
    void deallocate(cuota::stream_ref s, void*, std::size_t n, std::size_t a) noexcept {
        streams.push_back(s.get());
        note("deallocate", n, a, "");
    }
    void* allocate_sync(std::size_t n, std::size_t a, cuota::label const& who = {}) {
        return note("allocate_sync", n, a, who.name.text());
    }
    void deallocate_sync(void*, std::size_t n, std::size_t a) noexcept { note("deallocate_sync", n, a, ""); }
    std::size_t granularity() const noexcept { return 64; }
    cuota::memory_kind kind() const noexcept { return cuota::memory_kind::managed; }
    bool operator==(told const&) const = default;

private:
    void* note(char const* call, std::size_t n, std::size_t a, std::string const& more) {
        made.push_back(std::string{call} + ' ' + std::to_string(n) + ' ' + std::to_string(a) + ' ' + more);
        return this;
    }
};

// Keeps no accounts. With `returns` it frees each block that it has allocated, as after a failure.
template <class Upstream>
struct no_books final : cuota::detail::ref_counted {
    void* allocate(cuota::detail::call_order const& order, std::size_t bytes, std::size_t alignment,
                   cuota::label const& who) {
        void* const p = order.take(inside, bytes, alignment, who);
        if (!returns) return p;
        order.give(inside, p, bytes, alignment);
        return nullptr;
    }
    void deallocate(cuota::detail::call_order const& order, void* p, std::size_t bytes,
                    std::size_t alignment) noexcept {
        order.give(inside, p, bytes, alignment);
    }
    Upstream const& upstream() const noexcept { return inside; }

    Upstream inside;
    bool returns = false;
};

template <class Upstream>
class handle : public cuota::detail::resource_adaptor_base<Upstream, no_books<Upstream>> {
public:
    explicit handle(cuota::detail::intrusive_ptr<no_books<Upstream>> state)
        : handle::resource_adaptor_base{std::move(state)} {}
};

using cuota::memory_kind;
static_assert(cuota::labeled_resource<handle<told>> && sizeof(handle<told>) == sizeof(void*));
// Its memory kind is its upstream's, as far as the type determines it.
static_assert(!cuota::host_accessible_resource<handle<cuota::device_memory>> &&
              cuota::host_accessible_resource<handle<told>>);
static_assert(cuota::detail::knows_device<handle<cuota::device_memory>> &&
              !cuota::detail::knows_device<handle<told>>);
// Objects of the base class alone cannot be constructed.
static_assert(!std::is_constructible_v<cuota::detail::resource_adaptor_base<told, no_books<told>>,
                                       cuota::detail::intrusive_ptr<no_books<told>>>);

}  // namespace

TEST_CASE("calls of a resource_adaptor_base are passed to upstream unchanged",
          "[guard][resource_adaptor_base]") {
    made.clear();
    streams.clear();
    cuota::stream const s;
    auto const state = cuota::detail::intrusive_ptr<no_books<told>>::make();
    handle<told> memory{state};
    void* const p = memory.allocate(s, 10, 32, {"ordered", {}});
    memory.deallocate(s, p, 10, 32);
    void* const q = memory.allocate_sync(20, 16, {"blocking", {}});
    memory.deallocate_sync(q, 20, 16);
    REQUIRE(p == &state->inside);
    REQUIRE(q == &state->inside);
    REQUIRE(made == std::vector<std::string>{"allocate 10 32 ordered", "deallocate 10 32 ",
                                             "allocate_sync 20 16 blocking", "deallocate_sync 20 16 "});
    REQUIRE(streams == std::vector<cudaStream_t>{s.get(), s.get()});
    REQUIRE(memory.granularity() == 64);
    REQUIRE(memory.kind() == memory_kind::managed);
}

TEST_CASE("a block that cannot be recorded is freed in the way in which it was allocated",
          "[guard][resource_adaptor_base]") {
    made.clear();
    streams.clear();
    cuota::stream const s;
    auto const state = cuota::detail::intrusive_ptr<no_books<told>>::make();
    state->returns = true;
    handle<told> memory{state};
    REQUIRE(memory.allocate(s, 10, 32) == nullptr);
    REQUIRE(memory.allocate_sync(20, 16) == nullptr);
    REQUIRE(made == std::vector<std::string>{"allocate 10 32 ", "deallocate 10 32 ", "allocate_sync 20 16 ",
                                             "deallocate_sync 20 16 "});
    REQUIRE(streams == std::vector<cudaStream_t>{s.get(), s.get()});
}

TEST_CASE("copies of a resource_adaptor_base are equal", "[guard][resource_adaptor_base]") {
    handle<told> const one{cuota::detail::intrusive_ptr<no_books<told>>::make()};
    handle<told> const copy = one;
    handle<told> const other{cuota::detail::intrusive_ptr<no_books<told>>::make()};
    REQUIRE(one == copy);
    REQUIRE(one != other);
    REQUIRE(cuota::any_resource{one} == cuota::any_resource{copy});
}
