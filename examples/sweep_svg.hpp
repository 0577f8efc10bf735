// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Draws the cost of less memory: time per step and recomputation, one group of bars for each amount of memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace train {

struct sweep_point {
    std::string memory;       ///< "25 %"
    std::string bytes;        ///< "131 KiB"
    std::string plan;         ///< the strategy and its parts
    double milliseconds = 0;  ///< per step
    double recomputed = 0;    ///< percent of the forward work
};

/// A self-contained SVG picture that follows the browser's light or dark mode.
class sweep_svg {
public:
    explicit sweep_svg(std::vector<sweep_point> points) : points_{std::move(points)} {
        for (sweep_point const& p : points_) {
            most_time_ = std::max(most_time_, p.milliseconds);
            most_work_ = std::max(most_work_, p.recomputed);
        }
        most_time_ = round_axis(most_time_);
        most_work_ = round_axis(std::max(most_work_, 10.0));
    }

    /// Throws std::runtime_error if the file cannot be written. Called before the sweep runs.
    static void check(std::string const& path) {
        if (!std::ofstream{path, std::ios::app}) refuse(path);
    }
    /// Throws: std::runtime_error if the file cannot be written.
    void write(std::string const& path) const {
        std::ofstream file{path};
        file << text();
        if (!file.flush()) refuse(path);
    }

    [[nodiscard]] std::string text() const {
        std::string svg = head();
        panel(svg, 60, "time per step, ms", most_time_, "time", &sweep_point::milliseconds);
        panel(svg, 250, "forward work done again, %", most_work_, "work", &sweep_point::recomputed);
        for (std::size_t i = 0; i != points_.size(); ++i) {
            label(svg, middle(i), 410, points_[i].memory, "middle", "strong");
            label(svg, middle(i), 428, points_[i].bytes, "middle");
            label(svg, middle(i), 446, points_[i].plan, "middle", "quiet");
        }
        label(svg, (left + right) / 2, 472, "memory for activations, of what keeping all of them takes",
              "middle");
        return svg + "</svg>\n";
    }

private:
    static constexpr double left = 70;
    static constexpr double right = 710;
    static constexpr double height = 130;

    [[noreturn]] static void refuse(std::string const& path) {
        throw std::runtime_error{"--sweep: cannot write " + path};
    }
    [[nodiscard]] static std::string head() {
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 730 490\" role=\"img\" "
               "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
               "<title>What less memory for activations costs</title>\n"
               "<style>:root{color-scheme:light dark}"
               ".paper{fill:#fff}text{fill:#1b1b1b}.quiet{fill:#5a5a5a}.strong{font-weight:600}"
               ".grid{stroke:#d8d8d8}.axis{stroke:#5a5a5a}.time{fill:#2868b0}.work{fill:#b05a1e}"
               "@media(prefers-color-scheme:dark){.paper{fill:#16181c}text{fill:#ececec}.quiet{fill:#a8a8a8}"
               ".grid{stroke:#363a42}.axis{stroke:#a8a8a8}.time{fill:#6aa8ee}.work{fill:#eb9a5b}}</style>\n"
               "<rect class=\"paper\" width=\"730\" height=\"490\"/>\n";
    }
    // Returns the smallest value of the form 1, 2 or 5 times a power of ten that is not below `most`.
    [[nodiscard]] static double round_axis(double most) {
        double unit = 1e-6;
        while (true)
            for (double const step : {1.0, 2.0, 2.5, 5.0})
                if (step * unit >= most) return step * unit;
                else if (step == 5.0) unit *= 10;
    }
    [[nodiscard]] static std::string digits(double x) {
        char text[32];
        std::snprintf(text, sizeof text, "%.3g", x);
        return text;
    }
    static std::string number(double x) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f", x);
        return text;
    }
    static void label(std::string& to, double x, double y, std::string const& what, char const* anchor,
                      char const* kind = "") {
        to += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor +
              "\" class=\"" + kind + "\">" + what + "</text>\n";
    }
    [[nodiscard]] double middle(std::size_t i) const {
        double const step = (right - left) / static_cast<double>(points_.size());
        return left + step * (static_cast<double>(i) + 0.5);
    }

    void panel(std::string& to, double top, char const* title, double most, char const* kind,
               double sweep_point::*value) const {
        label(to, left, top - 18, title, "start", "strong");
        for (int part = 0; part <= 2; ++part) {
            double const y = top + height * (2 - part) / 2;
            to += "<line class=\"" + std::string{part == 0 ? "axis" : "grid"} + "\" x1=\"" + number(left) +
                  "\" x2=\"" + number(right) + "\" y1=\"" + number(y) + "\" y2=\"" + number(y) + "\"/>\n";
            label(to, left - 8, y + 4, digits(most * part / 2), "end", "quiet");
        }
        for (std::size_t i = 0; i != points_.size(); ++i) {
            double const bar = height * points_[i].*value / most;
            to += "<rect class=\"" + std::string{kind} + "\" x=\"" + number(middle(i) - 28) + "\" y=\"" +
                  number(top + height - bar) + "\" width=\"56\" height=\"" + number(bar) + "\"/>\n";
            label(to, middle(i), top + height - bar - 5, digits(points_[i].*value), "middle");
        }
    }

    std::vector<sweep_point> points_;
    double most_time_ = 0;
    double most_work_ = 0;
};

}  // namespace train
