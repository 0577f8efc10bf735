// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Programs made up at random of all kinds of owners, on two devices: made, moved, used and ended in any order, also on other threads,
// beside a model that knows each value. For as long as one likes: CUOTA_STRESS=<steps, in all>.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cuota/buffer/append_buffer.hpp>
#include <cuota/buffer/async_copy.hpp>
#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/device_scalar.hpp>
#include <cuota/buffer/mirrored_buffer.hpp>
#include <cuota/buffer/pinned_buffer.hpp>
#include <cuota/buffer/released_buffer.hpp>
#include <cuota/buffer/staging_ring.hpp>
#include <cuota/data/loader/batch_loader.hpp>
#include <cuota/guard/budget.hpp>
#include <cuota/guard/budget_alert.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/guarded.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/guard/tracked.hpp>
#include <cuota/pool/planning/step_plan.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/report/recording/recorder.hpp>
#include <cuota/resource/async_memory.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/resource/pinned_memory.hpp>
#include <cuota/runtime/graph.hpp>
#include <cuota/simulator.hpp>

#include "support/catch.hpp"
#include "support/machine.hpp"
#include "support/numbered_source.hpp"
#include "support/rounds.hpp"
#include "support/words.hpp"

using namespace cuota::literals;
using support::word;

namespace simulator = cuota::simulator;

namespace {

struct add {
    cuota::device_span<word> to;
    word by;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += by; }
};
struct append_index {
    cuota::device_appender<word> to;
    CUOTA_KERNEL void operator()(std::size_t i) const { to.push_back(static_cast<word>(i)); }
};

// A program's cache: charged bytes, which it releases when it is called.
class cache {
public:
    cache(cuota::budget const& account, std::size_t bytes) : account_{account}, bytes_{bytes} {
        account_.charge(bytes_, "cache");
        registered_.emplace(
            account_, "cache", [this](std::size_t) { return bytes_; },
            [this](std::size_t) {
                std::size_t const given = std::exchange(bytes_, 0);
                account_.refund(given);
                return given;
            });
    }
    cache(cache const&) = delete;
    cache& operator=(cache const&) = delete;
    ~cache() {
        registered_.reset();
        account_.refund(bytes_);
    }

private:
    cuota::budget account_;
    std::size_t bytes_;
    std::optional<cuota::reclaimer> registered_;
};

// How a program ends what is borrowed: leases before their buffers, as it should be, or when it comes to it.
enum class leases { end_first, outlive };

struct counts {
    std::size_t misuses = 0, refusals = 0, wrong = 0, other = 0, looks = 0, launches = 0, batches = 0,
                leases = 0;
    std::string first_other;
};

class program {
public:
    program(std::uint64_t seed, leases how, counts& seen) : draw_{seed}, how_{how}, seen_{seen} {
        cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking);
    }
    program(program const&) = delete;
    program& operator=(program const&) = delete;
    ~program() {
        end_all();
        cudaStreamSynchronize(native_);
        cudaStreamDestroy(native_);
    }

    void run(std::size_t steps) {
        for (std::size_t i = 0; i != steps; ++i) {
            // No call of the library's may depend on the current device where it has a stream, nor change it.
            int const device = !has_own_sources_ && draw(4) == 0 ? 1 : 0;
            auto const on_device = [&] {
                cudaSetDevice(device);
                step();
                int after = -1;
                cudaGetDevice(&after);
                if (after != device) note_other("the current device is another");
            };
            if (draw(24) == 0) std::thread{on_device}.join();
            else on_device();
        }
        cudaSetDevice(0);
    }

private:
    template <class T>
    using bag = std::vector<std::unique_ptr<T>>;

    struct buffer {
        cuota::device_buffer<word> words;
        std::shared_ptr<word> value;  // of all its elements; shared with the graphs that change it
        std::uint64_t id;
        std::uint64_t uses = 0;  // begun so far
    };
    struct lease {
        cuota::lease<word> words;
        std::uint64_t of;
        std::uint64_t use;  // the buffer's last one, so that nothing was ordered after it
        cuota::stream_ref on;
    };
    struct graph {
        cuota::graph_exec launched;
        std::shared_ptr<word> value;  // of what a launch adds 1 to; null: of nothing
    };
    struct both_sides {
        cuota::mirrored_buffer<word> words;
        word value;
    };
    struct copy {
        cuota::pending_copy<word> words;
        word value;
    };
    struct planned {
        explicit planned(cuota::any_resource from) : plan{std::move(from)} {}
        cuota::step_plan plan;
        std::optional<cuota::step_scope> open;
    };

    void step() {
        try {
            act();
        } catch (cuota::usage_error const&) { ++seen_.misuses; } catch (cuota::out_of_memory const&) {
            ++seen_.refusals;
            make_room();
        } catch (std::exception const& e) { note_other(e.what()); }
    }
    void act() {
        switch (draw(44)) {
            case 0: return make_budget();
            case 1: return make_pool();
            case 2: return make(streams_);
            case 3:
            case 4:
            case 5: return make_buffer(any_memory());
            case 6: return make_buffer(any_memory());
            case 7: return make_resource();
            case 8: return begin_lease();
            case 9: return use_lease();
            case 10:
            case 11: return change();
            case 12:
            case 13: return look();
            case 14: return resize();
            case 15: return exchange();
            case 16: return clone();
            case 17: return copy_part();
            case 18: return make_frame();
            case 19: return begin_step();
            case 20: return capture();
            case 21:
            case 22: return launch();
            case 23: return make_loader();
            case 24: return begin_epoch();
            case 25:
            case 26: return next_batch();
            case 27: return look_at_batch();
            case 28: return make_pinned();
            case 29: return download();
            case 30: return make_both_sides();
            case 31:
            case 32: return use_both_sides();
            case 33: return make_recorder();
            case 34: return release();
            case 35: return pools_.empty() ? void() : void(any(pools_).trim(draw(2) == 0 ? 0 : 4_MiB));
            case 36: return reserve();
            case 37: return guard();
            case 38: return plan();
            case 39: return upload();
            case 40: return append();
            default: return end_something();
        }
    }

    // ---- what programs do ----

    void make_budget() { make(budgets_, "inner", std::size_t{1} << (16 + draw(10)), any_budget()); }
    void make_pool() {
        cuota::pool_options how;
        if (draw(2) == 0) how.growth = cuota::pool_growth::segments;
        if (draw(4) == 0) how.max_size = 2_MiB + draw(8_MiB);
        if (draw(6) == 0) how.peers = cuota::device_set{cuota::device{0}, cuota::device{1}};
        if (has_own_sources_ && draw(6) == 0) make(pools_, any_budget(), cuota::async_memory{});
        else make(pools_, any_budget(), how);
    }
    void make_buffer(std::optional<cuota::any_resource> from) {
        if (!from) return;
        word const value = next();
        keep({size(), value, any_stream(), *from, cuota::tag{"buffer"}}, value);
    }
    void keep(cuota::device_buffer<word> words, word value) {
        if (buffers_.size() == 12) drop_buffer();
        make(buffers_, buffer{std::move(words), std::make_shared<word>(value), ++ids_});
    }
    void make_resource() {
        auto const over = any_memory();
        switch (has_own_sources_ ? draw(4) : 2 + draw(2)) {
            case 0: return make(resources_, cuota::budgeted<cuota::device_memory>{root_});
            case 1: return make(resources_, cuota::budgeted<cuota::async_memory>{root_});
            case 2:
                if (over) make(resources_, cuota::tracked<cuota::any_resource>{*over, "tracked"});
                return;
            default:
                if (over) make(resources_, cuota::guarded<cuota::any_resource>{*over});
        }
    }
    void begin_lease() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        cuota::stream_ref const s = any_stream();
        auto all = b.words.write(s);
        cuota::for_each_index(s, all.size(), add{all, 1});
        *b.value += 1;
        make(leases_, lease{std::move(all), b.id, ++b.uses, s});
        ++seen_.leases;
    }
    void use_lease() {
        if (leases_.empty()) return;
        lease& l = any(leases_);
        if (l.on.is_of_one_thread()) return;  // here, its handle may name another stream
        for (auto& b : buffers_) {
            if (b->id != l.of || b->uses != l.use) continue;
            cuota::for_each_index(l.on, l.words.size(), add{l.words, 2});
            *b->value += 2;
        }
    }
    void change() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        cuota::stream_ref const s = any_stream();
        word const by = next();
        ++b.uses;
        cuota::for_each_index(s, b.words.size(), add{b.words.write(s), by});
        *b.value += by;
    }
    void look() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        ++b.uses;
        check(b.words.to_vector(any_stream()), *b.value);
    }
    void resize() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        ++b.uses;
        b.words.resize(size(), *b.value);
        b.value = std::make_shared<word>(*b.value);  // graphs were made of the memory before
    }
    void exchange() {
        if (buffers_.size() < 2) return;
        std::size_t const i = draw(buffers_.size()), j = draw(buffers_.size());
        if (i == j) return;
        buffer& a = *buffers_[i];
        buffer& b = *buffers_[j];
        end_leases();
        if (draw(2) == 0) {
            a.words.swap(b.words);
            std::swap(a.value, b.value);
            return;
        }
        a.words = std::move(b.words);
        a.value = std::move(b.value);
        buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(j));
    }
    void clone() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        ++b.uses;
        word const value = *b.value;
        keep(b.words.clone(any_stream()), value);
    }
    // Copies all elements of another buffer, so that the model stays one value.
    void copy_part() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        for (auto& other : buffers_) {
            if (other->words.size() != b.words.size() || &b == other.get()) continue;
            ++b.uses, ++other->uses;
            b.words.copy_from(other->words, any_stream());
            *b.value = *other->value;
            return;
        }
    }
    void make_frame() {
        if (pools_.empty()) return;
        if (frames_.empty() || draw(2) == 0)
            frames_.push_back(std::unique_ptr<cuota::frame>{new cuota::frame{any(pools_).frame()}});
        else frames_.push_back(std::unique_ptr<cuota::frame>{new cuota::frame{any(frames_).nested()}});
        (void)any(frames_).allocate(any_stream(), size());
    }
    void begin_step() {
        if (pools_.empty()) return;
        steps_.push_back(std::unique_ptr<cuota::pool_step>{new cuota::pool_step{any(pools_).begin_step()}});
    }
    void capture() {
        auto const from = any_memory();
        if (streams_.empty() || !from) return;
        end_leases();
        batches_.clear();
        cuota::stream_ref const s = any(streams_);
        buffer* const b = buffers_.empty() ? nullptr : &any(buffers_);
        if (b) ++b->uses;
        auto made = cuota::capture(s, [&] {
            cuota::device_buffer<word> scratch{size(), word{2}, s, *from, cuota::tag{"scratch"}};
            cuota::for_each_index(s, scratch.size(), add{scratch.write(s), 1});
            if (b) cuota::for_each_index(s, b->words.size(), add{b->words.write(s), 1});
        });
        make(graphs_, graph{std::move(made), b ? b->value : nullptr});
    }
    void launch() {
        if (graphs_.empty()) return;
        graph& g = any(graphs_);
        g.launched.launch(any_stream());
        if (g.value) ++*g.value;
        for (auto& b : buffers_)
            if (b->value == g.value) ++b->uses;
        ++seen_.launches;
    }
    void make_loader() {
        cuota::loader_options how{.batch_size = 1 + draw(60), .device_budget = root_, .pinned_budget = root_};
        how.workers = 1 + draw(3);
        how.device_slots = 1 + draw(3);
        if (draw(2) == 0) how.reclaim_priority = 1;
        if (draw(2) == 0) how.seed = draw(5);
        make(loaders_, support::numbered_source{200}, how);
    }
    void begin_epoch() {
        if (!loaders_.empty()) make(epochs_, any(loaders_).epoch(draw(3)));
    }
    void next_batch() {
        if (epochs_.empty()) return;
        cuota::epoch_range& epoch = any(epochs_);
        if (auto b = epoch.next()) make(batches_, std::move(*b));
    }
    void look_at_batch() {
        if (batches_.empty()) return;
        cuota::batch const& b = any(batches_);
        cuota::stream_ref const s = any_stream();
        auto const triples = b.view<std::uint64_t>(s, 1);
        std::vector<std::uint64_t> seen(triples.size());
        cuota::rt::copy_to_host(seen.data(), triples.data(), triples.bytes(), s);
        s.synchronize();
        for (std::size_t i = 0; i != seen.size(); ++i) seen_.wrong += seen[i] != 3 * b.samples()[i];
        ++seen_.batches;
    }
    void make_pinned() { make(pinned_, size(), root_); }
    void upload() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        word const value = next();
        ++b.uses;
        if (draw(2) == 0) {
            cuota::pinned_buffer<word> from{b.words.size(), root_};
            std::ranges::fill(from.write(), value);
            from.upload(b.words, any_stream());
        } else {
            if (rings_.empty() || draw(4) == 0) make(rings_, 1 + draw(3), 4_KiB, root_);
            std::vector<word> const from(b.words.size(), value);
            cuota::upload<word>(from, b.words, any(rings_), any_stream());
        }
        *b.value = value;
    }
    void download() {
        if (buffers_.empty()) return;
        buffer& b = any(buffers_);
        ++b.uses;
        word const value = *b.value;
        make(copies_, copy{cuota::download(b.words, any_stream(), root_), value});
        copy const& one = any(copies_);
        for (word const w : one.words.get()) seen_.wrong += w != one.value;
    }
    void make_both_sides() {
        if (pools_.empty()) return;
        word const value = next();
        cuota::mirrored_buffer<word> made{size(), any_stream(), any(pools_).resource(),
                                          cuota::budgeted<cuota::pinned_memory>{root_}};
        std::ranges::fill(made.overwrite_host(), value);
        make(both_sides_, both_sides{std::move(made), value});
    }
    void use_both_sides() {
        if (both_sides_.empty()) return;
        both_sides& x = any(both_sides_);
        switch (draw(6)) {
            case 0:
                for (word const w : x.words.read_host()) seen_.wrong += w != x.value;
                return;
            case 1: {
                auto const all = x.words.write_host();
                for (word& w : all) w += 1;
                x.value += 1;
                return;
            }
            case 2:
            case 3: {
                cuota::stream_ref const s = any_stream();
                cuota::for_each_index(s, x.words.size(), add{x.words.write(s), 3});
                x.value += 3;
                return;
            }
            case 4: return x.words.evict_to_host(any_stream());
            default: return x.words.release_host();
        }
    }
    void make_recorder() { make(recorders_, root_, cuota::recorder_options{.capacity = 512}); }
    void release() {
        if (buffers_.empty()) return;
        std::size_t const i = draw(buffers_.size());
        end_leases_of(*buffers_[i]);
        make(released_, buffers_[i]->words.release());
        any(released_).used_on(any_stream());
        buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    void reserve() {
        if (reservations_.empty() || draw(2) == 0) return make(reservations_, root_.reserve(draw(100'000)));
        cuota::reservation& r = any(reservations_);
        if (draw(2) == 0) r.grow(draw(10'000));
        else make(budgets_, "spends", cuota::unlimited, r.as_budget());
    }
    void guard() {
        if (draw(2) == 0)
            make(watches_, root_, std::vector<cuota::alert_threshold>{0.5}, 0.1,
                 [this](cuota::alert_event const&) { ++crossings_; });
        else make(caches_, any_budget(), draw(2_MiB));
    }
    void plan() {
        if (plans_.empty() || draw(6) == 0) {
            if (!pools_.empty()) make(plans_, any(pools_).resource());
            return;
        }
        planned& p = any(plans_);
        if (!p.open) return void(p.open.emplace(p.plan.begin()));
        if (draw(3) == 0) return p.open.reset();
        cuota::stream_ref const s = any_stream();
        cuota::device_buffer<word> x{size(), 1u, s, p.plan.resource()};
        cuota::for_each_index(s, x.size(), add{x.write(s), 1});
        if (draw(4) == 0) check(x.to_vector(any_stream()), 2);
        if (draw(3) == 0) keep(std::move(x), 2);
    }
    void append() {
        auto const from = any_memory();
        if (!from) return;
        if (appended_.empty() || draw(3) == 0) return make(appended_, 1'000, any_stream(), *from);
        auto& found = any(appended_);
        found.clear(any_stream());
        cuota::stream_ref const s = any_stream();
        std::size_t const count = draw(1'000);
        cuota::for_each_index(s, count, append_index{found.append(s)});
        seen_.wrong += found.to_vector(any_stream()).size() != count;
    }

    // ---- ends ----

    void end_something() {
        auto const ends = [this] {
            switch (draw(30)) {
                case 0: return drop(budgets_);
                case 1: return drop(pools_);
                case 2:
                case 3: return drop(streams_);
                case 4: return drop(frames_);
                case 5: return drop(steps_);
                case 6: return drop(recorders_);
                case 7: return drop(loaders_);
                case 8: return drop(epochs_);
                case 9:
                case 10: return drop(batches_);
                case 11:
                case 12: return drop(graphs_);
                case 13: return drop(pinned_);
                case 14: return drop(copies_);
                case 15: return drop(both_sides_);
                case 16: return drop(resources_);
                case 17: return drop(rings_);
                case 18: return drop(reservations_);
                case 19: return drop(released_);
                case 20: return drop(watches_);
                case 21: return drop(caches_);
                case 22: return drop(plans_);
                case 23: return drop(appended_);
                case 24: return drop(leases_);
                default: return drop_buffer();
            }
        };
        if (draw(8) == 0) std::thread{ends}.join();
        else ends();
    }
    template <class T>
    void drop(bag<T>& all) {
        if (all.empty()) return;
        std::size_t const i = draw(all.size());
        std::unique_ptr<T> const gone = std::move(all[i]);
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    void drop_buffer() {
        if (buffers_.empty()) return;
        std::size_t const i = draw(buffers_.size());
        end_leases_of(*buffers_[i]);
        std::unique_ptr<buffer> const gone = std::move(buffers_[i]);
        buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    void make_room() {
        for (int i = 0; i != 5; ++i) {
            drop_buffer();
            drop(pinned_), drop(copies_), drop(both_sides_), drop(graphs_), drop(appended_), drop(loaders_);
        }
    }
    void end_leases() { leases_.clear(); }
    void end_leases_of(buffer const& b) {
        if (how_ == leases::end_first) std::erase_if(leases_, [&](auto const& l) { return l->of == b.id; });
    }
    // Kinds in any order.
    void end_all() {
        std::vector<std::function<void()>> ends{[&] { budgets_.clear(); },
                                                [&] { pools_.clear(); },
                                                [&] { streams_.clear(); },
                                                [&] { frames_.clear(); },
                                                [&] { steps_.clear(); },
                                                [&] { graphs_.clear(); },
                                                [&] { loaders_.clear(); },
                                                [&] { epochs_.clear(); },
                                                [&] { batches_.clear(); },
                                                [&] { pinned_.clear(); },
                                                [&] { copies_.clear(); },
                                                [&] { both_sides_.clear(); },
                                                [&] { recorders_.clear(); },
                                                [&] { resources_.clear(); },
                                                [&] { rings_.clear(); },
                                                [&] { released_.clear(); },
                                                [&] { reservations_.clear(); },
                                                [&] { watches_.clear(); },
                                                [&] { caches_.clear(); },
                                                [&] { plans_.clear(); },
                                                [&] { appended_.clear(); },
                                                [&] {
                                                    while (!buffers_.empty()) drop_buffer();
                                                },
                                                [&] { end_leases(); }};
        std::ranges::shuffle(ends, draw_);
        for (auto const& end : ends) end();
        if (root_.held() != 0) note_other(std::to_string(root_.held()) + " bytes are held");
    }

    // ---- what there is ----

    template <class T, class... Arguments>
    void make(bag<T>& into, Arguments&&... arguments) {
        auto made = std::make_unique<T>(
            std::forward<Arguments>(arguments)...);  // of others that are in the bag, maybe
        if (into.size() == 12) drop(into);
        into.push_back(std::move(made));
    }
    template <class T>
    [[nodiscard]] T& any(bag<T>& all) {
        return *all[draw(all.size())];
    }
    [[nodiscard]] cuota::budget const& any_budget() {
        return budgets_.empty() || draw(2) == 0 ? root_ : any(budgets_);
    }
    [[nodiscard]] cuota::stream_ref any_stream() {
        if (draw(16) == 0) return native_;
        if (draw(16) == 0) return cudaStreamPerThread;
        if (streams_.empty()) make(streams_);
        return any(streams_);
    }
    [[nodiscard]] std::optional<cuota::any_resource> any_memory() {
        switch (draw(8)) {
            case 0:
                if (!frames_.empty()) return cuota::any_resource{any(frames_)};
                break;
            case 1:
                if (!steps_.empty()) return cuota::any_resource{any(steps_)};
                break;
            case 2:
                if (!resources_.empty()) return any(resources_);
                break;
            case 3:
                if (!plans_.empty()) return cuota::any_resource{any(plans_).plan};
                break;
            case 4:
                if (!pools_.empty()) return cuota::any_resource{any(pools_).persistent()};
                break;
            default: break;
        }
        if (pools_.empty()) return std::nullopt;
        return cuota::any_resource{any(pools_)};
    }
    [[nodiscard]] std::size_t size() { return 1 + draw(draw(6) == 0 ? 300'000 : 3'000); }
    [[nodiscard]] word next() { return static_cast<word>(1 + draw(1'000)); }
    [[nodiscard]] std::size_t draw(std::size_t below) { return draw_() % below; }
    void check(std::vector<word> const& found, word value) {
        seen_.wrong += !support::all_are(found, value);
        ++seen_.looks;
    }
    void note_other(std::string const& what) {
        if (seen_.other++ == 0) seen_.first_other = what;
    }

    std::mt19937_64 draw_;
    leases const how_;
    counts& seen_;
    cudaStream_t native_ = nullptr;
    // Memory of the driver without a pool, which does not tell which device it is of: in programs on one device.
    bool const has_own_sources_ = draw(2) == 0;
    std::uint64_t ids_ = 0;
    std::size_t crossings_ = 0;
    cuota::budget root_{"root", 48_MiB};
    bag<cuota::budget> budgets_;
    bag<cuota::scoped_pool> pools_;
    bag<cuota::stream> streams_;
    bag<buffer> buffers_;
    bag<lease> leases_;
    bag<cuota::frame> frames_;
    bag<cuota::pool_step> steps_;
    bag<graph> graphs_;
    bag<cuota::batch_loader> loaders_;
    bag<cuota::epoch_range> epochs_;
    bag<cuota::batch> batches_;
    bag<cuota::pinned_buffer<word>> pinned_;
    bag<copy> copies_;
    bag<both_sides> both_sides_;
    bag<cuota::recorder> recorders_;
    bag<cuota::any_resource> resources_;
    bag<cuota::staging_ring> rings_;
    bag<cuota::reservation> reservations_;
    bag<cuota::released_buffer<word>> released_;
    bag<cuota::budget_alert> watches_;
    bag<cache> caches_;
    bag<planned> plans_;
    bag<cuota::append_buffer<word>> appended_;
};

// Steps of all programs of a test.
std::size_t steps() {
    char const* const told = std::getenv("CUOTA_STRESS");
    return told ? std::strtoull(told, nullptr, 10) : support::rounds<std::size_t>(12'000);
}
constexpr std::size_t steps_of_one = 600;

}  // namespace

TEST_CASE("random programs of all owners, destroyed in any order, have no races and correct values",
          "[programs][owners][stress]") {
    auto const how = GENERATE(leases::end_first, leases::outlive);
    counts seen;
    for (std::uint64_t seed = 1; seed <= std::max<std::size_t>(1, steps() / steps_of_one); ++seed) {
        INFO("program " << seed << (how == leases::outlive ? ", leases outlive their buffers" : ""));
        support::machine machine{{.devices = 2}};
        simulator::set_race_checks(simulator::race_checks::report);
        std::size_t cuda_errors = 0;
        std::string first_error;
        {
            program one{seed, how, seen};
            one.run(steps_of_one);
        }
        for (std::string const& told : machine.errors.take())
            if (told.starts_with("cuota::cuda_error") && ++cuda_errors == 1) first_error = told;
        INFO("reported: " << first_error << ", thrown: " << seen.first_other);
        REQUIRE(cuda_errors == 0);
        REQUIRE(seen.other == 0);
        REQUIRE(seen.wrong == 0);
        REQUIRE(simulator::live().total() == 0);
        for (std::string const& told : simulator::race_reports()) UNSCOPED_INFO(told);
        for (std::string const& told : simulator::misuse_reports()) UNSCOPED_INFO(told);
        auto const misuse = simulator::misuse();
        REQUIRE(misuse.total() - misuse.bad_captures - (how == leases::outlive ? misuse.races : 0) == 0);
    }
    std::string const text = std::to_string(seen.looks) + " looks, " + std::to_string(seen.launches) +
                             " launches, " + std::to_string(seen.batches) + " batches, " +
                             std::to_string(seen.leases) + " leases, " + std::to_string(seen.misuses) +
                             " misuses, " + std::to_string(seen.refusals) + " refused";
    INFO(text);
    if (std::getenv("CUOTA_STRESS")) WARN(text);
    CHECK(seen.looks > 0);
    CHECK(seen.launches > 0);
    CHECK(seen.batches > 0);
    CHECK(seen.leases > 0);
}
