// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/buffer/detail/owned_block.hpp>

#include <optional>
#include <type_traits>
#include <utility>

#include <cuota/core/bytes.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"

using cuota::detail::owned_block;

static_assert(sizeof(owned_block) <= 40);
static_assert(!std::is_copy_constructible_v<owned_block>);
static_assert(std::is_nothrow_move_constructible_v<owned_block> &&
              std::is_nothrow_move_assignable_v<owned_block>);

namespace {

// The shared state of a resource handle. Counts instances, blocks and the blocks that hold a reference.
struct source final : cuota::detail::ref_counted {
    inline static int alive = 0, blocks = 0, keeping = 0;
    source() noexcept { ++alive; }
    ~source() { --alive; }
    char bytes[64] = {};
};

// A resource whose blocks hold a reference to it exactly if Keeps.
template <bool Keeps>
struct handle {
    void* allocate(cuota::stream_ref, std::size_t n, std::size_t, cuota::label const& who = {}) {
        if (who.where.line == 13) throw cuota::usage_error{"refused", who.where};
        source::blocks += n != 0;
        return n != 0 ? at->bytes : nullptr;
    }
    void* allocate_retaining(cuota::stream_ref s, std::size_t n, std::size_t a,
                             cuota::label const& who) requires Keeps {
        void* const p = allocate(s, n, a, who);
        if (p) {
            ++source::keeping;
            at->add_ref();
        }
        return p;
    }
    void deallocate(cuota::stream_ref, void*, std::size_t, std::size_t = 256) noexcept {
        --source::blocks;
        if constexpr (Keeps) {
            --source::keeping;
            (void)cuota::detail::intrusive_ptr<source>::adopt(at.get());
        }
    }
    void* allocate_sync(std::size_t, std::size_t, cuota::label const& = {}) { return nullptr; }
    void deallocate_sync(void*, std::size_t, std::size_t = 256) noexcept {}
    static std::size_t granularity() { return 256; }
    static cuota::memory_kind kind() { return cuota::memory_kind::device; }
    handle unowned() const noexcept requires Keeps {
        return {cuota::detail::intrusive_ptr<source>::adopt(at.get())};
    }
    bool operator==(handle const&) const noexcept = default;

    cuota::detail::intrusive_ptr<source> at;
};
static_assert(cuota::block_owned_resource<handle<true>> && !cuota::block_owned_resource<handle<false>>);
static_assert(!cuota::block_owned_resource<cuota::any_resource> &&
              !cuota::block_owned_resource<cuota::device_memory>);

template <class Handle>
struct scene {
    std::optional<Handle> memory{Handle{cuota::detail::intrusive_ptr<source>::make()}};
    std::optional<cuota::stream> home{std::in_place};

    [[nodiscard]] std::size_t owners() const { return memory->at->ref_count(); }
    [[nodiscard]] owned_block block(std::size_t bytes, unsigned line = 1) const {
        return {*home, *memory, bytes, {{}, {"block.cpp", line}}};
    }
};

}  // namespace

TEMPLATE_TEST_CASE("an owned_block frees its bytes, and keeps its resource and its stream until that is done",
                   "[resource][owned_block]", handle<true>, handle<false>) {
    scene<TestType> on;
    {
        owned_block const some = on.block(64);
        CHECK(source::blocks == 1);
        CHECK(some.at() == on.memory->at->bytes);
        CHECK(some.bytes() == 64);
        CHECK(some.home() == cuota::stream_ref{*on.home});
        CHECK(some.memory() == cuota::any_resource{*on.memory});
        on.memory.reset();
        on.home.reset();
        CHECK(source::alive == 1);
    }
    CHECK(source::blocks == 0);
    CHECK(source::alive == 0);
}

TEST_CASE("an owned_block does not count as an owner where its bytes keep the resource",
          "[resource][owned_block]") {
    scene<handle<true>> const kept;
    owned_block const a = kept.block(64);
    CHECK(kept.owners() == 2);  // the handle and the bytes
    CHECK(source::keeping == 1);
    {
        owned_block const none = kept.block(0);
        CHECK(kept.owners() == 3);
        cuota::any_resource const copy = a.memory();
        CHECK(kept.owners() == 4);
    }
    CHECK(kept.owners() == 2);

    scene<handle<false>> const other;
    owned_block const b = other.block(64);
    CHECK(other.owners() == 2);  // the handle and the block
}

TEMPLATE_TEST_CASE("a moved owned_block keeps its bytes, and the original has none",
                   "[resource][owned_block]", handle<true>, handle<false>) {
    scene<TestType> on;
    {
        owned_block a = on.block(64);
        owned_block b{std::move(a)};
        CHECK(a.at() == nullptr);
        CHECK(a.bytes() == 0);
        CHECK(b.bytes() == 64);
        CHECK(a.memory() == b.memory());
        CHECK(a.home() == b.home());

        a = on.block(0);
        CHECK(source::blocks == 1);
        a = std::move(b);
        CHECK(a.bytes() == 64);
        a = on.block(32);
        CHECK(source::blocks == 1);
        auto& same = a;
        a = std::move(same);
        CHECK(a.bytes() == 32);
        on.memory.reset();
        on.home.reset();
        { owned_block const last{std::move(a)}; }
        CHECK(source::blocks == 0);
        CHECK(source::alive == 1);  // the moved-from block keeps its resource
    }
    CHECK(source::alive == 0);
}

TEMPLATE_TEST_CASE("a refused owned_block allocates nothing and keeps no owner", "[resource][owned_block]",
                   handle<true>, handle<false>) {
    scene<TestType> const on;
    CHECK_THROWS_AS(on.block(64, 13), cuota::usage_error);
    CHECK(on.owners() == 1);
    CHECK(source::blocks == 0);
}
