// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// A learnable data set in the format of MNIST, written to disk for users who have no MNIST files.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cuota/data/samplers/permutation.hpp>

namespace train {

/// Ten classes of 28 x 28 gray images: each class is a few blurred spots, which each image moves, dims and adds noise to. The destructor
/// removes the files.
class synthetic_digits {
public:
    static constexpr std::uint32_t side = 28;
    static constexpr std::uint32_t classes = 10;

    /// Throws: std::runtime_error if the temporary folder cannot be written.
    synthetic_digits(std::uint32_t samples, std::uint64_t seed) : random_{seed} {
        std::string folder = (std::filesystem::temp_directory_path() / "cuota-train-XXXXXX").string();
        if (!mkdtemp(folder.data())) throw std::runtime_error{"cannot make a folder in " + folder};
        folder_ = folder;
        try {
            write(samples);
        } catch (...) {
            remove();
            throw;
        }
    }
    synthetic_digits(synthetic_digits const&) = delete;
    synthetic_digits& operator=(synthetic_digits const&) = delete;
    ~synthetic_digits() { remove(); }

    [[nodiscard]] std::string images() const { return (folder_ / "images-idx3-ubyte").string(); }
    [[nodiscard]] std::string labels() const { return (folder_ / "labels-idx1-ubyte").string(); }

private:
    struct spot {
        double x, y, width;
    };

    // Standard distributions differ between standard libraries; this one does not.
    double uniform() noexcept {
        random_ += 0x9E3779B97F4A7C15;
        return static_cast<double>(cuota::detail::mixed(random_) >> 11) * 0x1p-53;
    }

    void write(std::uint32_t samples) {
        std::vector<std::vector<spot>> prototypes(classes);
        for (auto& spots : prototypes)
            for (int i = 0; i != 4; ++i)
                spots.push_back({6 + 16 * uniform(), 6 + 16 * uniform(), 1.5 + 2 * uniform()});

        std::ofstream image_file{images(), std::ios::binary};
        std::ofstream label_file{labels(), std::ios::binary};
        header(image_file, {samples, side, side});
        header(label_file, {samples});
        std::vector<char> image(std::size_t{side} * side);
        for (std::uint32_t i = 0; i != samples; ++i) {
            auto const label = static_cast<std::uint32_t>(uniform() * classes);
            draw(prototypes[label], image);
            image_file.write(image.data(), static_cast<std::streamsize>(image.size()));
            label_file.put(static_cast<char>(label));
        }
        if (!image_file.flush() || !label_file.flush())
            throw std::runtime_error{"cannot write " + folder_.string() + ": is the disk full?"};
    }

    void draw(std::vector<spot> const& spots, std::vector<char>& image) {
        double const dx = 6 * uniform() - 3;
        double const dy = 6 * uniform() - 3;
        double const light = 0.15 + 0.5 * uniform();
        for (std::uint32_t y = 0; y != side; ++y)
            for (std::uint32_t x = 0; x != side; ++x) {
                double value = 0.6 * uniform();
                for (spot const& s : spots) {
                    double const px = x - s.x - dx;
                    double const py = y - s.y - dy;
                    value += light * std::exp(-(px * px + py * py) / (2 * s.width * s.width));
                }
                image[y * side + x] =
                    static_cast<char>(static_cast<unsigned char>(255 * std::min(value, 1.0)));
            }
    }

    static void header(std::ofstream& to, std::vector<std::uint32_t> const& extents) {
        to.put(0).put(0).put(8).put(static_cast<char>(extents.size()));
        for (std::uint32_t const n : extents)
            for (int shift = 24; shift >= 0; shift -= 8) to.put(static_cast<char>(n >> shift));
    }

    void remove() noexcept {
        std::error_code ignored;  // ignored: other programs may clean the temporary folder, too
        std::filesystem::remove_all(folder_, ignored);
    }

    std::filesystem::path folder_;
    std::uint64_t random_;
};

}  // namespace train
