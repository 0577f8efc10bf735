// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A file for concurrent reads at any offset.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/unique_handle.hpp>

namespace cuota::inline v0 {

namespace detail {

[[nodiscard]] std::string errno_text(int error);

struct descriptor_traits {
    using type = int;
    static constexpr int none() noexcept { return -1; }
    static void close(int descriptor) noexcept;
};
using unique_descriptor = unique_handle<descriptor_traits>;

}  // namespace detail

/// A regular file, open for reading. Copies share it; the last closes it. If it shrinks, a read of missing bytes throws.
/// Threads: any, concurrently.
/// Example: file.read_exact(offset, bytes);
class file {
public:
    /// Throws: data_error if it cannot be opened or is not a regular file.
    explicit file(std::string path);

    /// Takes ownership of a descriptor, even if this throws; `name` is for messages. Throws: as above.
    [[nodiscard]] static file adopt(int descriptor, std::string name);

    [[nodiscard]] std::uint64_t size() const noexcept { return state_->size; }  ///< bytes, when it was opened
    /// Returns the path, or adopt's argument.
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }
    /// Returns "images" for "data/images.idx.gz".
    [[nodiscard]] std::string stem() const;

    /// Fills `out` from `offset` on.
    /// Throws: data_error, at the first byte missing or unreadable; out may be partly written.
    void read_exact(std::uint64_t offset, std::span<std::byte> out) const;

    /// Fills the parts in order, usually with one system call; modifies `parts`, at most 1024. Throws: as above.
    void read_exact(std::uint64_t offset, std::span<iovec> parts) const;

private:
    struct state {
        detail::unique_descriptor descriptor;
        std::string name;
        std::uint64_t size;
    };

    file(detail::unique_descriptor descriptor, std::string name);

    static detail::unique_descriptor open(std::string const& path);

    static std::uint64_t regular_size(int descriptor, std::string const& name);

    // Repeats `read(descriptor, offset)` after signals.
    template <class Read>
    [[nodiscard]] std::size_t got_or_throw(std::uint64_t offset, Read read) const {
        for (;;) {
            auto const got = read(state_->descriptor.get(), static_cast<off_t>(offset));
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR)
                detail::throw_data_error(name(), offset, "cannot be read: {}", {detail::errno_text(errno)});
        }
    }

    static std::span<iovec> without_front(std::span<iovec> parts, std::size_t bytes) noexcept;

    [[nodiscard]] data_error ends_early(std::uint64_t offset, std::uint64_t wanted) const;
    [[nodiscard]] data_error ends_at(std::uint64_t end, std::uint64_t offset, std::uint64_t bytes) const;

    detail::light_shared_ptr<state const> state_;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_DATA

#include <algorithm>
#include <system_error>

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string errno_text(int error) { return std::system_category().message(error); }

CUOTA_INLINE void descriptor_traits::close(int descriptor) noexcept {
    if (::close(descriptor) == 0 || errno == EINTR) return;  // Linux: closed even if interrupted
    int const error = errno;
    report_failure_of([&] { throw std::system_error{error, std::system_category(), "cannot close a file"}; });
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE file::file(std::string path) : file{open(path), std::move(path)} {}

CUOTA_INLINE file file::adopt(int descriptor, std::string name) {
    return file{detail::unique_descriptor{descriptor}, std::move(name)};
}

CUOTA_INLINE std::string file::stem() const {
    std::string const base = name().substr(name().find_last_of('/') + 1);
    return base.substr(0, base.find('.', 1));
}

CUOTA_INLINE void file::read_exact(std::uint64_t offset, std::span<std::byte> out) const {
    if (offset > size() || out.size() > size() - offset) throw ends_at(size(), offset, out.size());
    while (!out.empty()) {
        std::size_t const got = got_or_throw(offset, [&](int from, off_t at) {
            return ::pread(from, out.data(), out.size(),
                           at);  // preadv would copy the list
        });
        if (got == 0) throw ends_early(offset, out.size());
        offset += got;
        out = out.subspan(got);
    }
}

CUOTA_INLINE void file::read_exact(std::uint64_t offset, std::span<iovec> parts) const {
    std::uint64_t left = 0;
    for (iovec const& part : parts) left += part.iov_len;
    if (offset > size() || left > size() - offset) throw ends_at(size(), offset, left);
    while (left != 0) {
        std::size_t const got = got_or_throw(offset, [&](int from, off_t at) {
            return ::preadv(from, parts.data(), static_cast<int>(parts.size()), at);
        });
        if (got == 0) throw ends_early(offset, left);
        offset += got;
        left -= got;
        parts = without_front(parts, got);
    }
}

CUOTA_INLINE file::file(detail::unique_descriptor descriptor, std::string name) {
    std::uint64_t const size = regular_size(descriptor.get(), name);
    state_ = detail::light_shared_ptr<state const>::make(state{std::move(descriptor), std::move(name), size});
}

CUOTA_INLINE detail::unique_descriptor file::open(std::string const& path) {
    // Non-blocking: pipes are rejected instead of waited for.
    constexpr int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    for (;;) {
        if (int const descriptor = ::open(path.c_str(), flags); descriptor >= 0)
            return detail::unique_descriptor{descriptor};
        if (errno != EINTR)
            detail::throw_data_error(path, 0, "cannot be opened: {}", {detail::errno_text(errno)});
    }
}

CUOTA_INLINE std::uint64_t file::regular_size(int descriptor, std::string const& name) {
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0)
        detail::throw_data_error(name, 0, "fstat failed: {}", {detail::errno_text(errno)});
    if (!S_ISREG(facts.st_mode)) detail::throw_data_error(name, 0, "is not a regular file");
    return static_cast<std::uint64_t>(facts.st_size);
}

CUOTA_INLINE std::span<iovec> file::without_front(std::span<iovec> parts, std::size_t bytes) noexcept {
    while (!parts.empty() && bytes >= parts.front().iov_len) {
        bytes -= parts.front().iov_len;
        parts = parts.subspan(1);
    }
    if (bytes != 0) {
        parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + bytes;
        parts.front().iov_len -= bytes;
    }
    return parts;
}

CUOTA_INLINE data_error file::ends_early(std::uint64_t offset, std::uint64_t wanted) const {
    return ends_at(regular_size(state_->descriptor.get(), name()), offset, wanted);
}

CUOTA_INLINE data_error file::ends_at(std::uint64_t end, std::uint64_t offset, std::uint64_t bytes) const {
    return {name(), std::max(end, offset),
            "the file ends at byte " + std::to_string(end) +
                (end < size() ? ", shorter than when it was opened" : "") + "; " + std::to_string(bytes) +
                " bytes requested from byte " + std::to_string(offset)};
}

}  // namespace cuota::inline v0

#endif
