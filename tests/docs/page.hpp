// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Shared by the tests of a page's snippets: captures a snippet's output and compares it with the output on the page.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include <unistd.h>

#include <cuota/all.hpp>

#include "support/catch.hpp"
#include "support/temp_folder.hpp"

namespace page {

namespace detail {

/// Redirects the standard output to a file until it is destroyed.
class diverted {
public:
    diverted() : file_{std::tmpfile()} {
        std::fflush(stdout);
        before_ = ::dup(STDOUT_FILENO);
        if (!file_ || before_ < 0 || ::dup2(::fileno(file_.get()), STDOUT_FILENO) < 0)
            throw std::runtime_error{"the standard output cannot be led elsewhere"};
    }
    diverted(diverted const&) = delete;
    diverted& operator=(diverted const&) = delete;
    ~diverted() {
        std::fflush(stdout);
        ::dup2(before_, STDOUT_FILENO);
        ::close(before_);
    }

    [[nodiscard]] std::string text() const {
        std::fflush(stdout);
        std::string all(static_cast<std::size_t>(std::filesystem::file_size(path())), '\0');
        std::rewind(file_.get());
        all.resize(std::fread(all.data(), 1, all.size(), file_.get()));
        return all;
    }

private:
    struct closer {
        void operator()(std::FILE* f) const noexcept { std::fclose(f); }
    };
    [[nodiscard]] std::string path() const {
        return "/proc/self/fd/" + std::to_string(::fileno(file_.get()));
    }

    std::unique_ptr<std::FILE, closer> file_;
    int before_ = -1;
};

}  // namespace detail

template <class F>
[[nodiscard]] std::string printed(F f) {
    detail::diverted const to;
    f();
    return to.text();
}

/// Checks that f prints the output that the page shows for the snippet "page/name". `plain` removes from both texts the parts that differ
/// between machines. If CUOTA_SNIPPETS_SEEN names a folder, the output is also stored there, for _snippets.py --fill.
template <class F, class Plain>
void check_prints(std::string const& name, F f, Plain plain) {
    std::ifstream file{std::string{CUOTA_SNIPPETS} + '/' + name + ".txt"};
    if (!file) throw std::runtime_error{"no page shows " + name};
    std::string const shown{std::istreambuf_iterator<char>{file}, {}};
    std::string const seen = printed(f);
    if (char const* const folder = std::getenv("CUOTA_SNIPPETS_SEEN")) {
        std::filesystem::path const path = std::filesystem::path{folder} / (name + ".txt");
        std::filesystem::create_directories(path.parent_path());
        std::ofstream{path} << seen;
    }
    CHECK(plain(seen) == plain(shown));
}
template <class F>
void check_prints(std::string const& name, F f) {
    check_prints(name, f, [](std::string const& text) { return text; });
}

/// Makes a temporary folder the current one until it is destroyed: snippets name files without a folder.
class inside {
public:
    inside() : before_{std::filesystem::current_path()} { std::filesystem::current_path(folder_.path()); }
    inside(inside const&) = delete;
    inside& operator=(inside const&) = delete;
    ~inside() { std::filesystem::current_path(before_); }

    [[nodiscard]] support::temp_folder const& folder() const noexcept { return folder_; }

    /// Writes an .npy file of zero floats to the folder: `samples` samples of shape `shape`, such as "64, 64".
    void write_npy(std::string const& name, std::size_t samples, std::string const& shape,
                   std::size_t numbers) const {
        std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(samples) +
                             ", " + shape + "), }";
        header.append((64 - (header.size() + 11) % 64) % 64, ' ').push_back('\n');
        std::string content{"\x93NUMPY\x01\x00", 8};
        content += static_cast<char>(header.size() % 256);
        content += static_cast<char>(header.size() / 256);
        content += header + std::string(samples * numbers * sizeof(float), '\0');
        folder_.write(name, content);
    }

private:
    support::temp_folder folder_{};
    std::filesystem::path before_;
};

}  // namespace page
