// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Records read by KvikIO. Requires KvikIO. In no umbrella header.
#pragma once

#if !__has_include(<kvikio/file_handle.hpp>)
#error                                                                                                       \
    "cuota/data/datasets/kvikio_dataset.hpp needs <kvikio/file_handle.hpp>: KvikIO, https://docs.rapids.ai/api/libkvikio"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <kvikio/defaults.hpp>
#include <kvikio/file_handle.hpp>

#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/text/text.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/datasets/npy_dataset.hpp>
#include <cuota/data/datasets/raw_dataset.hpp>
#include <cuota/data/element.hpp>

namespace cuota::inline v0 {

/// Records of a raw_dataset or .npy file, read by KvikIO's threads into host or device memory. With GPUDirect Storage, a loader with slots
/// in device memory bypasses host memory:
///
///     cuota::batch_loader loader{cuota::kvikio_dataset{array}, {.batch_size = 256, .device_budget = gpu, .pinned_budget = gpu,
///                                                               .host_memory = cuota::device_memory{}}};
///
/// Otherwise KvikIO uses its own pinned memory (defaults::bounce_buffer_size per thread), charged to no budget.
/// Throws:  on construction usage_error for several fields (use one file each and a zip_dataset); data_error if KvikIO cannot open the
///          file, or finds no CUDA driver. gather: data_error, naming the sample, after all reads have finished; usage_error in a forked
///          child.
/// Cost:    consecutive samples are one read, in tasks of at most KvikIO's defaults::task_size. The dataset itself reads small records in
///          random order faster. A gather allocates.
/// Follows: KvikIO's FileHandle::pread.
class kvikio_dataset {
public:
    static constexpr bool fills_device_memory = true;  ///< slots may be in device memory

    /// Opens the records' file again.
    explicit kvikio_dataset(raw_dataset const& records)
        : state_{detail::light_shared_ptr<state>::make(records)} {}
    /// Opens the array's file again.
    explicit kvikio_dataset(npy_dataset const& array) : kvikio_dataset{array.records()} {}

    /// Shares the data; a move is a copy.
    kvikio_dataset(kvikio_dataset const&) noexcept = default;
    kvikio_dataset& operator=(kvikio_dataset const&) noexcept = default;  ///< shares the data
    ~kvikio_dataset() = default;

    [[nodiscard]] std::uint64_t size() const noexcept { return state_->records.size(); }  ///< records
    /// Returns the single field.
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->records.fields(); }
    [[nodiscard]] std::string const& name() const noexcept { return state_->records.name(); }  ///< the file's

    /// Gathers into host memory or the current device's.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        check_gather(*this, samples, out);
        if (samples.empty()) return;
        reads all{*state_, out[0]};
        for (std::size_t i = 0; i != samples.size();) {
            std::size_t const n = detail::run_length(samples.subspan(i));
            all.start({samples[i], n});
            i += n;
        }
        all.finish();
    }
    /// Gathers runs, with one read each.
    void gather_runs(std::span<sample_run const> runs, std::span<std::span<std::byte> const> out) const {
        check_gather_runs(*this, runs, out);
        reads all{*state_, out[0]};
        for (sample_run const& run : runs) all.start(run);
        all.finish();
    }

private:
    struct state {
        explicit state(raw_dataset const& from) : records{from}, handle{open(from)} {}

        static kvikio::FileHandle open(raw_dataset const& from) {
            if (from.fields().size() != 1)
                detail::throw_usage_error("{}: kvikio_dataset requires exactly one field, not {}",
                                          {from.name(), fields_text(from.fields())});
            try {
                return kvikio::FileHandle{from.name(), "r"};
            } catch (std::exception const& why) {
                detail::throw_data_error(from.name(), 0, "KvikIO cannot open it: {}",
                                         {detail::as_name(why.what(), 400)});
            }
        }

        raw_dataset records;
        kvikio::FileHandle handle;
        detail::process_mark made;
    };

    /// Pending reads into one span; the destructor waits for them.
    class reads {
    public:
        reads(state& from, std::span<std::byte> to) : from_{from}, left_{to} {
            if (from_.made.is_of_parent()) detail::throw_forked();  // KvikIO's threads are the parent's
        }
        reads(reads const&) = delete;  // they write to the caller's memory
        reads& operator=(reads const&) = delete;
        ~reads() {
            for (task& t : tasks_)
                if (t.bytes.valid()) t.bytes.wait();
        }

        /// Starts a run. Each piece is its own KvikIO task, because a read of several does not wait for the others when one fails.
        void start(sample_run run) {
            raw_layout const& layout = from_.records.layout();
            std::uint64_t offset = layout.header + run.first * layout.record_bytes;
            for (std::size_t bytes = run.count * layout.record_bytes; bytes != 0;) {
                std::size_t const now = std::min(bytes, kvikio::defaults::task_size());
                task& next = tasks_.emplace_back(task{offset, now, {}});
                try {
                    next.bytes = from_.handle.pread(left_.data(), now, offset, now,
                                                    kvikio::defaults::gds_threshold(), false);
                } catch (std::exception const& why) { refuse(next, why.what()); }
                left_ = left_.subspan(now);
                offset += now;
                bytes -= now;
            }
        }
        /// Waits for all; throws the first error.
        void finish() {
            std::optional<data_error> met;
            for (task& t : tasks_) try {
                    std::size_t const got = t.bytes.get();
                    if (got != t.wanted)
                        refuse(t, "only " + std::to_string(got) + " of " + std::to_string(t.wanted) +
                                      " bytes were read");
                } catch (data_error const& error) {
                    if (!met) met = error;
                } catch (std::exception const& why) {
                    if (!met) met = failure(t, why.what());
                }
            if (met) throw *met;
        }

    private:
        struct task {
            std::uint64_t offset;
            std::size_t wanted;
            std::future<std::size_t> bytes;
        };

        [[nodiscard]] data_error failure(task const& of, std::string const& why) const {
            raw_layout const& layout = from_.records.layout();
            return {from_.records.name(), of.offset,
                    "sample " + std::to_string((of.offset - layout.header) / layout.record_bytes) +
                        " cannot be read: " + detail::shown(why, 400)};
        }
        [[noreturn]] void refuse(task const& of, std::string const& why) const { throw failure(of, why); }

        state& from_;
        std::span<std::byte> left_;
        std::vector<task> tasks_{};
    };

    detail::light_shared_ptr<state> state_;
};
static_assert(dataset<kvikio_dataset>);

}  // namespace cuota::inline v0
