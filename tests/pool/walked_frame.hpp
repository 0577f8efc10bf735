// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A frame of a random walk, with a model of its blocks and chunks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/pool/detail/blocks/block.hpp>
#include <cuota/pool/frame.hpp>

#include "pool/walker.hpp"

namespace pool_tests {

class walked_frame {
public:
    /// Opens a frame inside `outer`, if that is open, with chunks of its own.
    walked_frame(cuota::scoped_pool& pool, shadow& beside, streams& on, walker& by, walked_frame const* outer)
        : pool_{pool},
          shadow_{beside},
          streams_{on},
          walker_{by},
          frame_{outer && outer->frame_ ? new cuota::frame{outer->frame_->nested(here)}
                                        : new cuota::frame{pool.frame(here)}},
          memory_{frame_->resource()} {}

    [[nodiscard]] bool is_open() const { return frame_ != nullptr; }
    [[nodiscard]] std::size_t live() const { return live_.size(); }

    struct taken {
        held what;
        cuota::tag name;
        bool is_owned;
        std::uint64_t lane;
        std::size_t reserved_before;
    };
    /// Throws what the pool throws; nothing is changed if it throws.
    [[nodiscard]] taken take(std::size_t bytes) {
        std::size_t const stream = walker_.any_stream();
        std::size_t const dice = walker_.random()() % 16;
        cuota::tag const name = walker_.any_tag();
        cuota::stream_ref const s = streams_[stream];
        std::uint64_t const lane = s.id();  // may fail like the calls below
        std::size_t const before = shadow_.reserved();
        if (dice < 8)
            return {{frame_->allocate(s, bytes, 256, name, here), bytes, stream}, name, false, lane, before};
        if (dice < 15)
            return {{memory_.allocate(s, bytes, 256, {name, here}), bytes, stream}, name, true, lane, before};
        void* const p = memory_.allocate_sync(bytes, 256, {name, here});
        return {{p, bytes, stream}, name, true, cuota::detail::block_metadata::no_stream, before};
    }
    void keep(taken const& t) {
        chunk* in = chunk_of(t.what.p);
        if (!in) in = &enter_chunk(t);
        auto const at = reinterpret_cast<std::uintptr_t>(t.what.p);
        std::uintptr_t const end = at + t.what.bytes;
        claim(in->lane == t.lane, "a chunk is one stream's");
        claim(at % 256 == 0 && end <= in->at + in->bytes, "what is of a frame lies in a chunk");
        auto const after = live_.lower_bound(at);
        claim(after == live_.end() || end <= after->first, "what is of a frame ends before the next");
        claim(after == live_.begin() || std::prev(after)->first + std::prev(after)->second.what.bytes <= at,
              "what is of a frame begins after the last");
        live_.emplace(at, allocation{t.what, t.name, t.is_owned});
        in->owned += t.is_owned;
        walker_.touch(t.what);
    }

    /// Frees a random block. After the frame has ended, all blocks have an owner.
    void give_any() {
        if (live_.empty()) return;
        auto const any =
            std::next(live_.begin(), static_cast<std::ptrdiff_t>(walker_.random()() % live_.size()));
        held& h = any->second.what;
        if (walker_.once_in(4)) walker_.move_to(h, walker_.any_stream());
        if (walker_.once_in(2)) walker_.touch(h);
        give(any);
    }
    void give_first() {
        if (!live_.empty()) give(live_.begin());
    }
    void give_all_of(std::size_t stream) {
        for (auto a = live_.begin(); a != live_.end();) {
            auto const next = std::next(a);
            if (a->second.what.stream == stream) give(a);
            a = next;
        }
    }
    void give_all() {
        while (!live_.empty()) give(live_.begin());
    }
    std::size_t give_wrongly() {
        if (live_.empty()) return 0;
        held const h = live_.begin()->second.what;
        cuota::stream_ref const s = streams_[walker_.any_stream()];
        memory_.deallocate(s, h.p, h.bytes + 1);
        memory_.deallocate(s, static_cast<std::byte*>(h.p) + 1, h.bytes);
        memory_.deallocate(s, &pool_, h.bytes);
        return 3;
    }

    /// Ends the frame, which frees all blocks without an owner. Returns the texts that must be reported, if any.
    [[nodiscard]] std::vector<std::string> end() {
        std::map<std::string, std::vector<std::size_t>> alive;
        std::erase_if(live_, [](auto const& a) { return !a.second.is_owned; });
        for (auto const& [at, a] : live_) alive[a.name.text()].push_back(a.what.bytes);
        std::erase_if(chunks_, [&](chunk const& c) {
            if (c.owned == 0) shadow_.gives(reinterpret_cast<void*>(c.at), c.bytes);
            return c.owned == 0;
        });
        frame_.reset();
        std::vector<std::string> parts;
        if (live_.empty()) return parts;
        parts.push_back(alive_count(live_.size()));
        for (auto const& [tag, bytes] : alive) parts.push_back(alive_text(tag, bytes));
        return parts;
    }

private:
    struct chunk {
        std::uintptr_t at;
        std::size_t bytes;
        std::uint64_t lane;
        std::size_t owned = 0;
    };
    struct allocation {
        held what;
        cuota::tag name;
        bool is_owned;
    };
    using allocations = std::map<std::uintptr_t, allocation>;

    static void claim(bool holds, char const* what) {
        if (!holds) throw std::logic_error{std::string{"not so: "} + what};
    }
    [[nodiscard]] chunk* chunk_of(void const* p) {
        auto const at = reinterpret_cast<std::uintptr_t>(p);
        auto const found =
            std::ranges::find_if(chunks_, [&](chunk const& c) { return at >= c.at && at < c.at + c.bytes; });
        return found == chunks_.end() ? nullptr : &*found;
    }
    // Enters the pool's new live block, whose size follows from the pool's statistics.
    chunk& enter_chunk(taken const& t) {
        auto const is = pool_.stats();
        auto const was = shadow_.expected();
        std::size_t const requested = t.what.bytes;
        std::size_t const bytes = is.requested - was.requested;
        claim(is.live_blocks == was.live_blocks + 1, "a chunk is one block");
        bool const is_ample = bytes > requested && is.reserved == t.reserved_before &&
                              bytes <= std::max(chunk_bytes_, 64_KiB) && bytes <= is.reserved / 16;
        claim(bytes == requested || is_ample, "a chunk is what was asked for, or little and there");
        shadow_.took(t.what.p, bytes, is_ample ? cuota::tag{"frame"} : t.name);
        chunk_bytes_ += bytes;
        return chunks_.emplace_back(chunk{reinterpret_cast<std::uintptr_t>(t.what.p), bytes, t.lane});
    }
    void give(allocations::iterator a) {
        auto const [h, name, is_owned] = a->second;
        cuota::stream_ref const s = streams_[h.stream];
        bool const is_for_host = is_owned && walker_.once_in(16);
        if (is_for_host) s.synchronize();  // if this throws, nothing has been freed
        chunk& in = *chunk_of(h.p);
        live_.erase(a);
        in.owned -= is_owned;
        if (!is_open() && in.owned == 0) {
            shadow_.gives(reinterpret_cast<void*>(in.at), in.bytes);
            std::swap(in, chunks_.back());
            chunks_.pop_back();
        }
        if (!is_owned) return frame_->deallocate(s, h.p, h.bytes, here);
        if (is_for_host) memory_.deallocate_sync(h.p, h.bytes);
        else memory_.deallocate(s, h.p, h.bytes);
    }

    cuota::scoped_pool& pool_;
    shadow& shadow_;
    streams& streams_;
    walker& walker_;
    std::unique_ptr<cuota::frame> frame_;
    cuota::frame_resource memory_;
    allocations live_;
    std::vector<chunk> chunks_;
    std::size_t chunk_bytes_ = 0;  // of all chunks
};

}  // namespace pool_tests
