#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two gst-launch-1.0 processes and a lane between them. The source needs no caps: they come with the lane.
# Run it in ./quickstart shell. It compares the bytes with those of one pipeline without a lane.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FRAMELANE_DIR=$folder/lanes
picture="videotestsrc num-buffers=60 pattern=ball ! video/x-raw,format=I420,width=640,height=480,framerate=30/1"

# shellcheck disable=SC2086 # a pipeline is a list of words
timeout 60 gst-launch-1.0 -q $picture ! filesink location="$folder/direct.yuv"

timeout 60 gst-launch-1.0 -q lanesrc lane=cam0 ! filesink location="$folder/over-the-lane.yuv" &
consumer=$!
# shellcheck disable=SC2086
timeout 60 gst-launch-1.0 -q $picture ! lanesink lane=cam0 wait-for-consumers=1
wait "$consumer"

cmp "$folder/direct.yuv" "$folder/over-the-lane.yuv"
echo "60 frames, $(stat -c %s "$folder/over-the-lane.yuv") bytes: the same with and without the lane"
