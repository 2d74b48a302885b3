/* SPDX-License-Identifier: MIT */
/*
 * Framelane in C: frames between processes. The whole of the C++ API (framelane/lane/, descriptor/, format/, measure/),
 * where each call is described in full; here stands what is particular to C. For C99 and later, and for C++.
 *
 * Results    Functions that can fail return a framelane_code, FRAMELANE_OK = 0, and leave their results in the last
 *            parameters, which are set to NULL or 0 when they fail. framelane_error_text() is the sentence that belongs
 *            to it: that of the last call of this thread that failed. It lies in memory of the thread, so that reading
 *            it costs nothing, needs no freeing, and threads don't meet.
 * Handles    Opaque; each is given back by the function named where it is made. Those functions accept NULL. Any other
 *            function reports a NULL handle as FRAMELANE_INVALID_ARGUMENT, or answers 0, NULL, "" or FRAMELANE_NO_TIME.
 * Structs    The first member of each that may grow is `size`. Settings and what else a caller fills in: call the
 *            ..._init function, change what you like. Results: set `.size = sizeof x`, the rest is filled in. Programs
 *            and libraries of different versions fit: of a shorter struct only the members that it has are touched, and
 *            the others count as their defaults; of a longer one the members that the library doesn't know become 0,
 *            and in settings must be 0 (else FRAMELANE_UNSUPPORTED).
 * Strings    UTF-8 with a NUL. `const char*` in a result belongs to its handle, which is named beside it.
 * Units      Sizes are bytes; times are ns, of CLOCK_MONOTONIC or of the stream's segment, as is said. Timeouts:
 *            0 doesn't wait, FRAMELANE_FOREVER has no bound, a negative one counts as 0.
 * Threads    As is said at each handle. No callback may call the handle that it belongs to, unless it says so.
 * Processes  Open handles after fork(): a child may only give back those that it inherited.
 * Real time  framelane_producer_loan(), _publish(), framelane_consumer_take(), framelane_frame_unref() and all that
 *            looks at a frame make no allocation and no system call while both sides are awake and the stream goes on.
 *
 * A producer:                                             A consumer:
 *   framelane_producer* p;                                  framelane_consumer* c;
 *   if (framelane_producer_open("cam0", NULL, &p)) …        if (framelane_consumer_open("cam0", NULL, &c)) …
 *   framelane_producer_loan(p, bytes, &loan);               while (!framelane_consumer_take(c, timeout, &frame)) {
 *   write(framelane_loan_data(loan));                         read(framelane_frame_data(frame));
 *   framelane_producer_publish(p, loan, bytes, …);            framelane_frame_unref(frame);
 *   framelane_producer_end_of_stream(p);                    }
 *   framelane_producer_close(p);                            framelane_consumer_close(c);
 */
#ifndef FRAMELANE_FRAMELANE_H
#define FRAMELANE_FRAMELANE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FRAMELANE_API __attribute__((visibility("default")))
#else
#define FRAMELANE_API
#endif

#define FRAMELANE_VERSION_MAJOR 0
#define FRAMELANE_VERSION_MINOR 1
#define FRAMELANE_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ---------------------------------------------------------------------------------------------------- */

/* Of the library that is loaded, "0.1.0". Never NULL. */
FRAMELANE_API const char* framelane_version(void);
/* The same as one number: major * 10000 + minor * 100 + patch. */
FRAMELANE_API uint32_t framelane_version_number(void);

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Why a call did not do what was asked: framelane::Code, with the same numbers, which stay. */
typedef enum framelane_code {
  FRAMELANE_OK = 0,
  FRAMELANE_TIMEOUT = 1,          /* nothing came, or no room became free, in time */
  FRAMELANE_END_OF_STREAM = 2,    /* the producer ended the stream; nothing follows */
  FRAMELANE_INTERRUPTED = 3,      /* ..._interrupt() was called; holds until ..._resume() */
  FRAMELANE_PEER_LOST = 4,        /* the other process died or closed without an end of stream */
  FRAMELANE_PROTOCOL = 5,         /* the peer broke the protocol or the ABI; the text names the field */
  FRAMELANE_INVALID_ARGUMENT = 6, /* a value that can never work; the text says what would */
  FRAMELANE_NOT_FOUND = 7,        /* no such lane, directory or file */
  FRAMELANE_IN_USE = 8,           /* another live producer has the lane; the text names its process */
  FRAMELANE_PERMISSION = 9,       /* the system or the peer does not allow it */
  FRAMELANE_TOO_LARGE = 10,       /* a frame beyond max_frame_size or a path beyond its limit */
  FRAMELANE_NO_MEMORY = 11,       /* memory, address space or a resource limit is exhausted */
  FRAMELANE_FULL = 12,            /* all loans are out, or the ring is full and the call must not wait */
  FRAMELANE_REFUSED = 13,         /* the producer rejected this consumer; the text is its sentence */
  FRAMELANE_UNSUPPORTED = 14,     /* this kernel, build or peer lacks what is needed */
  FRAMELANE_SYSTEM = 15           /* any other system error; the text holds its words */
} framelane_code;

/* The field's name of a code, e.g. "timeout"; "ok", and "unknown" for other numbers. Never NULL. */
FRAMELANE_API const char* framelane_code_name(framelane_code code);
/* The sentence of the last call of this thread that failed; "" before the first. At most 1023 bytes. It stays until
 * the next call that fails, so read it before another call. Never NULL. */
FRAMELANE_API const char* framelane_error_text(void);
/* The code of that call; FRAMELANE_OK before the first. */
FRAMELANE_API framelane_code framelane_error_code(void);

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

#define FRAMELANE_FOREVER INT64_MAX       /* a timeout without bound */
#define FRAMELANE_NO_TIME UINT64_MAX      /* "none" of a media time (GST_CLOCK_TIME_NONE) */
#define FRAMELANE_NO_CLOCK_TIME INT64_MIN /* "none" of a CLOCK_MONOTONIC time */

/* What a producer does when the ring is full, in the words of GStreamer's queue. */
enum {
  FRAMELANE_LEAKY_NO = 0,        /* waits for gating consumers up to full_timeout_ns, then drops the new frame */
  FRAMELANE_LEAKY_UPSTREAM = 1,  /* drops the new frame */
  FRAMELANE_LEAKY_DOWNSTREAM = 2 /* passes over the slow consumers: they skip their oldest frame */
};

/* Which frames a consumer wants. */
enum {
  FRAMELANE_MODE_EVERY = 0, /* every frame, in order */
  FRAMELANE_MODE_LATEST = 1 /* always the newest one; never gates */
};

/* How a waiting side spends the time before it sleeps. */
enum {
  FRAMELANE_SPIN_ADAPTIVE = 0, /* a short spin that is cheaper than a wake, more within spin_budget, then sleep */
  FRAMELANE_SPIN_BUSY = 1,     /* spins until the frame is there: lowest latency, one whole CPU */
  FRAMELANE_SPIN_OFF = 2       /* sleeps at once */
};

/* Which frames carry the time at which they were published. */
enum {
  FRAMELANE_STAMPS_AUTO = 0, /* every frame up to 20,000 a second, then every 16th */
  FRAMELANE_STAMPS_ON = 1,
  FRAMELANE_STAMPS_OFF = 2
};

/* How the bytes travel. */
enum {
  FRAMELANE_TRANSPORT_AUTO = 0, /* all that the descriptor allows: shared memory, else a Unix socket, else TCP */
  FRAMELANE_TRANSPORT_SHM = 1,
  FRAMELANE_TRANSPORT_UDS = 2,
  FRAMELANE_TRANSPORT_TCP = 3,
  FRAMELANE_TRANSPORT_PIPE = 4 /* Windows named pipe: in descriptors only */
};

/* What a producer says to one who wants to join. */
enum {
  FRAMELANE_ADMIT_REFUSED = 0,   /* gets an error that says so */
  FRAMELANE_ADMIT_NO_GATING = 1, /* joins, but is never waited for */
  FRAMELANE_ADMIT_GATING = 2     /* joins, and is waited for if it wishes that */
};

/* Bits of framelane_frame_info.flags; GStreamer's buffer flags, the lane's own numbers. */
enum {
  FRAMELANE_FLAG_DISCONT = 1 << 0,
  FRAMELANE_FLAG_DELTA_UNIT = 1 << 1,
  FRAMELANE_FLAG_HEADER = 1 << 2,
  FRAMELANE_FLAG_GAP = 1 << 3,
  FRAMELANE_FLAG_CORRUPTED = 1 << 4,
  FRAMELANE_FLAG_MARKER = 1 << 5,
  FRAMELANE_FLAG_DROPPABLE = 1 << 6,
  FRAMELANE_FLAG_RESYNC = 1 << 7,
  FRAMELANE_FLAG_DECODE_ONLY = 1 << 8,
  FRAMELANE_FLAG_LIVE = 1 << 9,
  FRAMELANE_FLAG_NON_DROPPABLE = 1 << 10
};

/* ---- Handles ---------------------------------------------------------------------------------------------------- */

typedef struct framelane_producer framelane_producer;     /* sending end of a lane */
typedef struct framelane_loan framelane_loan;             /* a slot lent for writing */
typedef struct framelane_consumer framelane_consumer;     /* receiving end of a lane */
typedef struct framelane_frame framelane_frame;           /* one received frame, read-only, reference counted */
typedef struct framelane_client framelane_client;         /* asking end of a pair of lanes */
typedef struct framelane_call framelane_call;             /* a request that was sent and has no answer yet */
typedef struct framelane_response framelane_response;     /* the answer to it, reference counted */
typedef struct framelane_server framelane_server;         /* answering end of a pair of lanes */
typedef struct framelane_request framelane_request;       /* a request to be answered */
typedef struct framelane_observer framelane_observer;     /* watches a lane without taking part */
typedef struct framelane_descriptor framelane_descriptor; /* text that says where a lane is, parsed */
typedef struct framelane_format framelane_format;         /* caps, parsed; reference counted */

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

/* What travels with a frame besides its bytes. */
typedef struct framelane_frame_info {
  uint32_t size;
  uint32_t flags;      /* FRAMELANE_FLAG_ bits */
  uint64_t pts;        /* presentation time, ns of the stream's segment; FRAMELANE_NO_TIME */
  uint64_t dts;        /* decoding time, ns of the stream's segment; FRAMELANE_NO_TIME */
  uint64_t duration;   /* ns; FRAMELANE_NO_TIME */
  uint64_t offset;     /* in units of the format (frames, samples or bytes); FRAMELANE_NO_TIME */
  uint64_t offset_end; /* in units of the format; FRAMELANE_NO_TIME */
  int64_t due_ns;      /* when it is due, ns of CLOCK_MONOTONIC; FRAMELANE_NO_CLOCK_TIME */
  int64_t capture_ns;  /* when its content was captured, ns of CLOCK_MONOTONIC; FRAMELANE_NO_CLOCK_TIME */
  uint32_t type_id;    /* the application's own number for the kind of payload; 0 = none */
  uint32_t padding;
} framelane_frame_info;

/* All times "none", all else 0. `size`: sizeof *info. */
FRAMELANE_API void framelane_frame_info_init(framelane_frame_info* info, size_t size);

/* One more reference. Any thread. Returns `frame`. */
FRAMELANE_API framelane_frame* framelane_frame_ref(framelane_frame* frame);
/* Gives one reference back; with the last one the slot returns to the lane. Any thread, in any order, also after the
 * consumer was closed. */
FRAMELANE_API void framelane_frame_unref(framelane_frame* frame);

/* All of these from any thread that has a reference; what they point to is valid as long as that. */
FRAMELANE_API const void* framelane_frame_data(const framelane_frame* frame); /* 64-byte aligned unless inline */
FRAMELANE_API size_t framelane_frame_size(const framelane_frame* frame);
/* Its number among the lane's frames, from 0, without events. */
FRAMELANE_API uint64_t framelane_frame_seq(const framelane_frame* frame);
/* Frames that this consumer lost directly before this one. */
FRAMELANE_API uint64_t framelane_frame_skipped(const framelane_frame* frame);
FRAMELANE_API uint64_t framelane_frame_pts(const framelane_frame* frame);      /* FRAMELANE_NO_TIME: none */
FRAMELANE_API uint64_t framelane_frame_dts(const framelane_frame* frame);      /* FRAMELANE_NO_TIME: none */
FRAMELANE_API uint64_t framelane_frame_duration(const framelane_frame* frame); /* FRAMELANE_NO_TIME: none */
FRAMELANE_API uint32_t framelane_frame_flags(const framelane_frame* frame);
FRAMELANE_API uint32_t framelane_frame_type_id(const framelane_frame* frame);
/* ns of CLOCK_MONOTONIC; FRAMELANE_NO_CLOCK_TIME when the producer didn't say. */
FRAMELANE_API int64_t framelane_frame_due(const framelane_frame* frame);
/* When it was published, ns of CLOCK_MONOTONIC; 0 when it wasn't stamped. */
FRAMELANE_API int64_t framelane_frame_published(const framelane_frame* frame);
/* From publish to take, ns; -1 when it wasn't stamped. */
FRAMELANE_API int64_t framelane_frame_latency(const framelane_frame* frame);
FRAMELANE_API framelane_code framelane_frame_get_info(const framelane_frame* frame, framelane_frame_info* info);
/* What the producer sent beside the payload; NULL and 0 when there is none. `size` may be NULL. */
FRAMELANE_API const void* framelane_frame_side_data(const framelane_frame* frame, size_t* size);
/* Index of the slot among the lane's (0..4095), the same for each frame that reuses it; -1 when it isn't in a slot. */
FRAMELANE_API int32_t framelane_frame_slot(const framelane_frame* frame);
/* 1 for a private copy, made because max_held frames are held already. */
FRAMELANE_API int32_t framelane_frame_is_copy(const framelane_frame* frame);
/* 1 when the payload (at most 32 bytes) lies in the frame itself. */
FRAMELANE_API int32_t framelane_frame_is_inline(const framelane_frame* frame);
/* The caps that were in force when it was taken; "" when there were none. Never NULL. */
FRAMELANE_API const char* framelane_frame_caps(const framelane_frame* frame);
/* A number for these caps, and the layout of their planes, that no others of this process ever have, so that what was
 * made of them can be kept until it changes; 0 when there are none. */
FRAMELANE_API uint64_t framelane_frame_caps_id(const framelane_frame* frame);
/* The caps, parsed once for all frames that have them, or why they can't be: framelane_format_parse()'s result. Planes
 * of raw video are where the stream says that they lie: lanesink tells so of padded frames. They need
 * framelane_format_frame_size() bytes, which a broken producer's frame may lack: compare framelane_frame_size().
 * FRAMELANE_PROTOCOL: it said what can't be. What `format` then holds is a reference of the caller's. Allocates at the
 * first call for these caps. */
FRAMELANE_API framelane_code framelane_frame_get_format(const framelane_frame* frame, framelane_format** format);

/* ---- Events ----------------------------------------------------------------------------------------------------- */

/* What an event says. The names and meanings are GStreamer's. */
enum {
  FRAMELANE_EVENT_STREAM_START = 1,  /* text = stream id, number = flags, group */
  FRAMELANE_EVENT_CAPS = 2,          /* text = caps */
  FRAMELANE_EVENT_SEGMENT = 3,       /* segment */
  FRAMELANE_EVENT_TAG = 4,           /* text = serialised tag list, number = scope */
  FRAMELANE_EVENT_GAP = 5,           /* pts, duration */
  FRAMELANE_EVENT_CUSTOM = 6,        /* text = serialised structure, number = the sender's own kind */
  FRAMELANE_EVENT_END_OF_STREAM = 7, /* nothing follows */
  FRAMELANE_EVENT_STATE = 8,         /* like CUSTOM, but sticky: number = its kind, below 16 */
  FRAMELANE_EVENT_FLUSH_START = 9,   /* what isn't taken yet is dropped; only by framelane_producer_flush_start() */
  FRAMELANE_EVENT_FLUSH_STOP = 10    /* what follows counts again; only by framelane_producer_flush_stop() */
};

enum {
  FRAMELANE_SEGMENT_UNDEFINED = 0,
  FRAMELANE_SEGMENT_DEFAULT = 1,
  FRAMELANE_SEGMENT_BYTES = 2,
  FRAMELANE_SEGMENT_TIME = 3
};

/* How the stream's times map to running time (GstSegment, field by field). Numbers are in `format`'s units (ns for
 * FRAMELANE_SEGMENT_TIME); UINT64_MAX means not set. Doesn't grow. */
typedef struct framelane_segment {
  uint32_t format;
  uint32_t flags;
  double rate;
  double applied_rate;
  uint64_t base;
  uint64_t offset;
  uint64_t start;
  uint64_t stop;
  uint64_t time;
  uint64_t position;
  uint64_t duration;
} framelane_segment;

/* One event of a stream, in order with its frames. Which members count is said at each type. */
typedef struct framelane_event {
  uint32_t size;
  int32_t type; /* FRAMELANE_EVENT_; 0 = none */
  uint32_t number;
  uint32_t group;
  uint64_t pts;      /* ns; FRAMELANE_NO_TIME */
  uint64_t duration; /* ns; FRAMELANE_NO_TIME */
  framelane_segment segment;
  const char* text; /* of a received event: the consumer's, until its next take; NULL counts as "" */
} framelane_event;

/* A custom event without text, and the segment that starts at time 0 with rate 1. `size`: sizeof *event. */
FRAMELANE_API void framelane_event_init(framelane_event* event, size_t size);

/* What a consumer asks of the producer. */
enum {
  FRAMELANE_UPSTREAM_KEY_UNIT = 1, /* a frame that stands alone: time (NO_TIME = at once), headers, number = count */
  FRAMELANE_UPSTREAM_CUSTOM = 2,   /* text = serialised structure, number = the sender's own kind */
  FRAMELANE_UPSTREAM_QOS = 3       /* how it keeps up: number = GstQOSType, proportion, jitter_ns, time */
};

typedef struct framelane_upstream {
  uint32_t size;
  int32_t type; /* FRAMELANE_UPSTREAM_ */
  uint32_t number;
  int32_t headers;   /* 1: the stream's headers, too */
  uint64_t time;     /* ns of the producer's running time; FRAMELANE_NO_TIME */
  double proportion; /* of real time that the consumer needs; not negative */
  int64_t jitter_ns; /* how late (or, negative, early) its frames are */
  uint32_t consumer; /* received: id of who asked (framelane_consumer_info.id) */
  uint32_t padding;
  const char* text; /* at most 16 KiB; received: the producer's, until its next framelane_producer_take_upstream() */
} framelane_upstream;

/* A wish for a key unit at once. `size`: sizeof *upstream. */
FRAMELANE_API void framelane_upstream_init(framelane_upstream* upstream, size_t size);

/* ---- Statistics ------------------------------------------------------------------------------------------------- */

/* Percentiles of a set of latencies, in ns, nearest-rank, each within 1 %. All 0 when count is 0. Doesn't grow. */
typedef struct framelane_latency {
  uint64_t count;
  uint64_t min_ns;
  uint64_t p50_ns;
  uint64_t p90_ns;
  uint64_t p99_ns;
  uint64_t p999_ns;
  uint64_t p9999_ns;
  uint64_t max_ns;
} framelane_latency;

/* What a producer knows of one consumer. Counts are frames since the consumer joined. */
typedef struct framelane_consumer_info {
  uint32_t size;
  uint32_t id;       /* unique in the producer's life, from 1 */
  int32_t pid;       /* 0: unknown (another pid namespace) */
  uint32_t uid;      /* 65534: unknown */
  int32_t transport; /* FRAMELANE_TRANSPORT_ */
  int32_t gating;    /* 1: the producer waits for it now */
  int32_t demoted;   /* 1: lost that until it catches up */
  int32_t latest;    /* 1: its mode is FRAMELANE_MODE_LATEST */
  uint32_t held;     /* slots that it still reads */
  uint32_t max_held; /* slots that it may hold; with so many held it takes copies */
  int32_t sleeping;  /* 1: waits for a frame in the kernel now, and so costs a wake */
  uint32_t padding;
  uint64_t lag;              /* published, not yet taken */
  uint64_t taken;            /* as the consumer counts */
  uint64_t skipped;          /* as the consumer counts */
  uint64_t copied;           /* taken as private copies, as the consumer counts */
  uint64_t sleeps;           /* waits that ended in a sleep, as the consumer counts */
  uint64_t spins;            /* waits that ended while spinning, as the consumer counts */
  framelane_latency latency; /* publish to take */
  char name[64];             /* the consumer's process name, cut to 63 bytes */
  char address[64];          /* with TCP its host and port; else "" */
} framelane_consumer_info;

/* A producer's counters since it was opened. published = frames that got a sequence number; the drops got none. */
typedef struct framelane_producer_stats {
  uint32_t size;
  uint32_t num_consumers; /* connected now */
  uint64_t published;
  uint64_t bytes;        /* of the payloads of those */
  uint64_t dropped_full; /* new frames dropped: the ring was full (leaky upstream, or full_timeout_ns) */
  uint64_t passed_over;  /* unread frames taken from slow consumers (leaky downstream) */
  uint64_t full_waits;   /* publishes that had to wait */
  uint64_t wakes;        /* sleeping consumers woken */
  uint64_t demotions;
  uint64_t evictions; /* consumers disconnected for a broken protocol or a full queue */
  uint64_t copied;    /* frames that framelane_producer_publish_copy() copied into a slot */
  uint32_t loans;     /* slots out for writing now */
  uint32_t slots;     /* slots of the current segment that can be used now */
  uint32_t free_slots;
  uint32_t padding;
} framelane_producer_stats;

/* A consumer's counters since it was opened. */
typedef struct framelane_consumer_stats {
  uint32_t size;
  uint32_t held; /* frames held now */
  uint64_t taken;
  uint64_t skipped;     /* frames lost, all of them counted */
  uint64_t copied;      /* taken as private copies because max_held frames were held */
  uint64_t sleeps;      /* waits that ended in a sleep */
  uint64_t spins;       /* waits that ended while spinning */
  uint64_t connections; /* times a producer was connected */
  int32_t connected;
  int32_t gating; /* granted by the producer */
  int32_t demoted;
  int32_t transport;         /* FRAMELANE_TRANSPORT_; AUTO before the first connection */
  framelane_latency latency; /* publish to take, of the frames that were stamped */
  /* By how much, at most, the times and the latency may be wrong whose producer has another clock (another host, or
   * another time namespace); 0: it has the same one. */
  int64_t clock_offset_error_ns;
} framelane_consumer_stats;

/* ---- Producer --------------------------------------------------------------------------------------------------- */

/* Who wants to join a lane. */
typedef struct framelane_peer_info {
  uint32_t size;
  int32_t transport;   /* FRAMELANE_TRANSPORT_ */
  int32_t pid;         /* 0: unknown */
  uint32_t uid;        /* 65534: unknown */
  const char* name;    /* the process's name, as it says itself; valid during the call */
  const char* address; /* with TCP: host and port; else ""; valid during the call */
} framelane_peer_info;

/* Decides who may join, on any thread, at any time until framelane_producer_close() has returned; must not wait.
 * Returns FRAMELANE_ADMIT_. */
typedef int32_t (*framelane_authorize_fn)(const framelane_peer_info* peer, void* user);
/* A consumer came (joined = 1) or went (0, with the reason). On the library's own thread; must not wait. */
typedef void (*framelane_consumer_fn)(const framelane_consumer_info* info, int32_t joined, const char* reason,
                                      void* user);
/* Something happened that the function's name tells. */
typedef void (*framelane_notify_fn)(void* user);

/* What a producer is asked for: framelane::ProducerSettings. */
typedef struct framelane_producer_settings {
  uint32_t size;
  uint32_t burst;               /* frames absorbed while a consumer pauses, with no drop and no wait; 8 */
  int64_t burst_time_ns;        /* the same as a time; wins when set and the caps have a frame rate; 0 */
  int64_t full_timeout_ns;      /* 1 s */
  int64_t stall_timeout_ns;     /* 5 s; FRAMELANE_FOREVER: never demotes */
  int64_t linger_ns;            /* close waits this long for queued messages; 2 s */
  int64_t handshake_timeout_ns; /* a connection that isn't ready then goes; 2 s */
  uint64_t max_frame_size;      /* 256 MiB */
  double spin_budget;           /* share of one CPU; 0.02 */
  int32_t leaky;                /* FRAMELANE_LEAKY_; NO */
  int32_t stamps;               /* FRAMELANE_STAMPS_; AUTO */
  int32_t spin;                 /* FRAMELANE_SPIN_; ADAPTIVE */
  int32_t transport;            /* FRAMELANE_TRANSPORT_: serves only this one of those that the descriptor allows */
  uint32_t history;             /* old frames that a late joiner still gets; 0 */
  uint32_t max_loans;           /* slots out for writing at any time; 16 */
  uint32_t max_held;            /* the most that one consumer may hold; 4 */
  uint32_t max_consumers;       /* 1 to 32; 32 */
  uint32_t max_side_data;       /* bytes that a frame may carry beside its payload, up to 65472; 960 */
  int32_t insecure;             /* 1: allows TCP without a key on an address that isn't loopback */
  int32_t unsealed;             /* 1: allows shm on kernels that can't seal: consumers could then write */
  uint32_t padding;
  const char* psk_file;             /* TCP: TLS 1.3 with the key in this file; NULL: plain */
  framelane_authorize_fn authorize; /* NULL: over shm and UDS root and the own user, over TCP whoever can connect */
  void* authorize_user;
} framelane_producer_settings;

/* The defaults, which stand behind each member. `size`: sizeof *settings. */
FRAMELANE_API void framelane_producer_settings_init(framelane_producer_settings* settings, size_t size);

/* What became of a frame. */
enum {
  FRAMELANE_PUBLISHED = 0, /* in the ring */
  FRAMELANE_DROPPED = 1    /* the ring was full and the policy dropped it; counted */
};

enum {
  FRAMELANE_WAKE_NOW = 0,  /* wake sleeping consumers: a system call per sleeper */
  FRAMELANE_WAKE_LATER = 1 /* no system call; call framelane_producer_wake_consumers() soon */
};

/* How a frame is published. */
typedef struct framelane_publish_options {
  uint32_t size;
  int32_t wake;          /* FRAMELANE_WAKE_ */
  const void* side_data; /* copied: what framelane_frame_side_data() gives the consumers; NULL: none */
  size_t side_data_size; /* at most max_side_data */
} framelane_publish_options;

/* FRAMELANE_WAKE_NOW, no side data. `size`: sizeof *options. */
FRAMELANE_API void framelane_publish_options_init(framelane_publish_options* options, size_t size);

/* Creates the lane's memory and its control socket; consumers can connect when this returns. `settings` NULL: the
 * defaults. Give it back with framelane_producer_close().
 * Threads: publish, send, end_of_stream and flush_stop from one thread at a time; loans may be taken, filled and
 * discarded on any thread; interrupt, resume, flush_start, take_upstream, stats and wake_consumers from any. */
FRAMELANE_API framelane_code framelane_producer_open(const char* lane, const framelane_producer_settings* settings,
                                                     framelane_producer** producer);
/* Ends the lane and frees the handle: queued messages are drained for at most linger_ns. Loans and frames that are
 * out stay valid until they are given back. */
FRAMELANE_API void framelane_producer_close(framelane_producer* producer);

/* Makes room for frames of `slot_size` bytes ahead of time. */
FRAMELANE_API framelane_code framelane_producer_reserve(framelane_producer* producer, size_t slot_size);
/* Lends a slot of at least `size` bytes: to be published, or given back with framelane_loan_discard(). May wait up to
 * full_timeout_ns (leaky no, a size larger than any before). FRAMELANE_FULL: max_loans are out. */
FRAMELANE_API framelane_code framelane_producer_loan(framelane_producer* producer, size_t size, framelane_loan** loan);
/* The same, without waiting: FRAMELANE_FULL when there is none at once. */
FRAMELANE_API framelane_code framelane_producer_try_loan(framelane_producer* producer, size_t size,
                                                         framelane_loan** loan);

FRAMELANE_API void* framelane_loan_data(framelane_loan* loan); /* 64-byte aligned in a slot */
FRAMELANE_API size_t framelane_loan_capacity(const framelane_loan* loan);
/* Index of the slot (0..4095); -1 while a small payload lies in the loan itself. */
FRAMELANE_API int32_t framelane_loan_slot(const framelane_loan* loan);
/* Gives the slot back unpublished, and the handle. Any thread, also after the producer was closed. */
FRAMELANE_API void framelane_loan_discard(framelane_loan* loan);

/* Publishes the first `size` bytes of a loan. `info`, `options` and `published` (FRAMELANE_PUBLISHED or _DROPPED)
 * may be NULL. With FRAMELANE_OK the loan is used up, sent or dropped; after an error it is still the caller's. */
FRAMELANE_API framelane_code framelane_producer_publish(framelane_producer* producer, framelane_loan* loan, size_t size,
                                                        const framelane_frame_info* info,
                                                        const framelane_publish_options* options, int32_t* published);
/* Loans, copies and publishes. */
FRAMELANE_API framelane_code framelane_producer_publish_copy(framelane_producer* producer, const void* data,
                                                             size_t size, const framelane_frame_info* info,
                                                             const framelane_publish_options* options,
                                                             int32_t* published);
/* Publishes `count` loans in order and wakes the consumers once, after the last. sizes[i] bytes of loans[i]; infos
 * NULL or `count` of them. `done`: loans that are used up, the first ones; the rest is the caller's after an error. */
FRAMELANE_API framelane_code framelane_producer_publish_many(framelane_producer* producer, framelane_loan* const* loans,
                                                             const size_t* sizes, const framelane_frame_info* infos,
                                                             size_t count, size_t* done);
/* Publishes, but the slot comes back only when the ring AND the caller are done: the loan stays the caller's, valid
 * for reading; framelane_producer_reclaimed() tells when no consumer reads it any more, and then it may be
 * published again or discarded. */
FRAMELANE_API framelane_code framelane_producer_publish_kept(framelane_producer* producer, framelane_loan* loan,
                                                             size_t size, const framelane_frame_info* info,
                                                             const framelane_publish_options* options,
                                                             int32_t* published);
/* Writes the slots of at most `capacity` kept loans that no consumer reads any more, each once. */
FRAMELANE_API framelane_code framelane_producer_reclaimed(framelane_producer* producer, uint16_t* slots,
                                                          size_t capacity, size_t* count);
/* Wakes consumers that sleep although frames are there (after FRAMELANE_WAKE_LATER). */
FRAMELANE_API void framelane_producer_wake_consumers(framelane_producer* producer);

/* Sends an event in order with the frames. */
FRAMELANE_API framelane_code framelane_producer_send(framelane_producer* producer, const framelane_event* event);
/* Caps are the text that all consumers see as the format. */
FRAMELANE_API framelane_code framelane_producer_set_caps(framelane_producer* producer, const char* caps);
/* Ends the stream: consumers take what is published and then get FRAMELANE_END_OF_STREAM. */
FRAMELANE_API framelane_code framelane_producer_end_of_stream(framelane_producer* producer);
/* Begins a flush: consumers drop every frame that they haven't taken. Until flush_stop all waits here are
 * interrupted. */
FRAMELANE_API void framelane_producer_flush_start(framelane_producer* producer);
FRAMELANE_API framelane_code framelane_producer_flush_stop(framelane_producer* producer);

/* What consumers asked for, the oldest first: one at each call, FRAMELANE_TIMEOUT when there is no more. Never
 * waits. */
FRAMELANE_API framelane_code framelane_producer_take_upstream(framelane_producer* producer,
                                                              framelane_upstream* upstream);
/* Called on the library's thread when take_upstream has something to give; not again before it was called. Must not
 * wait. `notify` NULL: no more. */
FRAMELANE_API framelane_code framelane_producer_on_upstream(framelane_producer* producer, framelane_notify_fn notify,
                                                            void* user);
/* Of consumers that are there already it is told before this returns. `notify` NULL: no more. */
FRAMELANE_API framelane_code framelane_producer_on_consumer(framelane_producer* producer, framelane_consumer_fn notify,
                                                            void* user);

/* Waits until at least `count` consumers are connected. */
FRAMELANE_API framelane_code framelane_producer_wait_for_consumers(framelane_producer* producer, uint32_t count,
                                                                   int64_t timeout_ns);
/* Waits until every gating consumer took everything published. */
FRAMELANE_API framelane_code framelane_producer_drain(framelane_producer* producer, int64_t timeout_ns);
FRAMELANE_API uint32_t framelane_producer_num_consumers(const framelane_producer* producer);
/* Another policy for a full ring (FRAMELANE_LEAKY_), from the next frame on. Any thread. */
FRAMELANE_API framelane_code framelane_producer_set_leaky(framelane_producer* producer, int32_t leaky);
/* Makes every wait return FRAMELANE_INTERRUPTED, now and until resume. Any thread; not from a signal handler. */
FRAMELANE_API void framelane_producer_interrupt(framelane_producer* producer);
FRAMELANE_API void framelane_producer_resume(framelane_producer* producer);

/* The counters, and of the same moment the first `capacity` consumers (NULL and 0: none; stats->num_consumers says
 * how many there are). consumers[0].size says the size of each. */
FRAMELANE_API framelane_code framelane_producer_get_stats(const framelane_producer* producer,
                                                          framelane_producer_stats* stats,
                                                          framelane_consumer_info* consumers, size_t capacity);
/* Canonical descriptor of the lane. The producer's. */
FRAMELANE_API const char* framelane_producer_descriptor(const framelane_producer* producer);

/* ---- Consumer --------------------------------------------------------------------------------------------------- */

/* What a consumer is asked for: framelane::ConsumerSettings. */
typedef struct framelane_consumer_settings {
  uint32_t size;
  int32_t mode;      /* FRAMELANE_MODE_; EVERY */
  int32_t gating;    /* the producer waits for us, if it grants that; 1 */
  int32_t reconnect; /* waits for the lane to come back when the producer leaves without an end; 1 */
  uint32_t max_held; /* frames held at once; beyond it frames are copied; 4 */
  int32_t spin;      /* FRAMELANE_SPIN_; ADAPTIVE */
  int32_t transport; /* FRAMELANE_TRANSPORT_: tries only this one of those that the descriptor allows */
  uint32_t padding;
  int64_t connect_timeout_ns; /* of the first connection only; 10 s */
  uint64_t max_frame_size;    /* 256 MiB */
  double spin_budget;         /* share of one CPU; 0.02 */
  const char* psk_file;       /* TCP: TLS 1.3 with the key in this file; NULL: plain */
} framelane_consumer_settings;

/* The defaults, which stand behind each member. `size`: sizeof *settings. */
FRAMELANE_API void framelane_consumer_settings_init(framelane_consumer_settings* settings, size_t size);

/* connected = 1: a producer is connected; 0: it is gone and all it published is taken. On the taking thread, or in
 * close; must not take. */
typedef void (*framelane_connection_fn)(int32_t connected, void* user);

/* Checks the settings (NULL: the defaults); doesn't wait for the producer: the first take connects, so either side
 * may start first. Give it back with framelane_consumer_close(). Threads: connect and the take functions from one
 * thread at a time; interrupt, resume, send_upstream, flushing, producer_id, stats, transport and transport_reason
 * from any. */
FRAMELANE_API framelane_code framelane_consumer_open(const char* lane, const framelane_consumer_settings* settings,
                                                     framelane_consumer** consumer);
/* Leaves the lane and frees the handle, not while another thread is in one of its calls. Frames stay readable. */
FRAMELANE_API void framelane_consumer_close(framelane_consumer* consumer);

/* Waits until a producer is connected. */
FRAMELANE_API framelane_code framelane_consumer_connect(framelane_consumer* consumer, int64_t timeout_ns);
/* Waits for the next frame and lends it, read-only, until framelane_frame_unref(). Events on the way are skipped.
 * FRAMELANE_TIMEOUT, _END_OF_STREAM, _INTERRUPTED, _NOT_FOUND (no such lane within connect_timeout_ns), _PEER_LOST
 * (the producer left without an end and reconnect is off), _PROTOCOL, _REFUSED, _PERMISSION, _UNSUPPORTED,
 * _NO_MEMORY. */
FRAMELANE_API framelane_code framelane_consumer_take(framelane_consumer* consumer, int64_t timeout_ns,
                                                     framelane_frame** frame);
/* The next frame if it is there, else FRAMELANE_TIMEOUT; never waits. */
FRAMELANE_API framelane_code framelane_consumer_try_take(framelane_consumer* consumer, framelane_frame** frame);
/* Waits for one frame and takes up to `capacity` that are there. FRAMELANE_OK with `count` from 1 on; what stands
 * behind the last frame is said by the next call. */
FRAMELANE_API framelane_code framelane_consumer_take_many(framelane_consumer* consumer, int64_t timeout_ns,
                                                          framelane_frame** frames, size_t capacity, size_t* count);
/* As take, but events are returned, in order: either `frame` is set, or it is NULL and `event` filled in. */
FRAMELANE_API framelane_code framelane_consumer_take_item(framelane_consumer* consumer, int64_t timeout_ns,
                                                          framelane_frame** frame, framelane_event* event);
/* A descriptor for poll, epoll, GLib or asyncio that is readable when the next take wouldn't wait: a frame, an
 * event, an end, an error or an interruption is there. It isn't to be read: call framelane_consumer_try_take()
 * until it says FRAMELANE_TIMEOUT; that clears it. Connecting goes on meanwhile. The consumer's: not to be closed. */
FRAMELANE_API framelane_code framelane_consumer_event_fd(framelane_consumer* consumer, int* fd);

/* Caps of the last item taken, "" before the first; the consumer's, until its next take. On the taking thread. */
FRAMELANE_API const char* framelane_consumer_caps(const framelane_consumer* consumer);
/* Asks something of the producer. Never waits. FRAMELANE_NOT_FOUND: not connected; _FULL: too many, try later. */
FRAMELANE_API framelane_code framelane_consumer_send_upstream(framelane_consumer* consumer,
                                                              const framelane_upstream* upstream);
/* Set it before the first take. `notify` NULL: no more. */
FRAMELANE_API framelane_code framelane_consumer_on_connection(framelane_consumer* consumer,
                                                              framelane_connection_fn notify, void* user);
/* Called on the library's thread when a flush begins; must not wait. Set it before the first take. */
FRAMELANE_API framelane_code framelane_consumer_on_flush(framelane_consumer* consumer, framelane_notify_fn notify,
                                                         void* user);
/* 1 from the beginning of a flush until take_item has returned its FRAMELANE_EVENT_FLUSH_STOP. */
FRAMELANE_API int32_t framelane_consumer_flushing(const framelane_consumer* consumer);
/* Instance id, shape [16], of the producer that is, or was last, connected: random; zeros before the first. */
FRAMELANE_API framelane_code framelane_consumer_producer_id(const framelane_consumer* consumer, uint8_t* id);
/* Makes the take functions return FRAMELANE_INTERRUPTED, now and until resume. Any thread; not from a signal
 * handler. */
FRAMELANE_API void framelane_consumer_interrupt(framelane_consumer* consumer);
FRAMELANE_API void framelane_consumer_resume(framelane_consumer* consumer);
FRAMELANE_API framelane_code framelane_consumer_get_stats(const framelane_consumer* consumer,
                                                          framelane_consumer_stats* stats);
/* "shm", "uds" or "tcp"; "" before the first connection. Never NULL. */
FRAMELANE_API const char* framelane_consumer_transport(const framelane_consumer* consumer);
/* Why that one. Writes at most `capacity` bytes with the NUL and returns the length of the whole, as snprintf does. */
FRAMELANE_API size_t framelane_consumer_transport_reason(const framelane_consumer* consumer, char* text,
                                                         size_t capacity);
/* Canonical descriptor. The consumer's. */
FRAMELANE_API const char* framelane_consumer_descriptor(const framelane_consumer* consumer);

/* ---- Client ----------------------------------------------------------------------------------------------------- */

/* What a client and a server are asked for; lanes, sizes and burst must suit each other. */
typedef struct framelane_rpc_settings {
  uint32_t size;
  uint32_t burst;             /* calls without an answer at any time, 1 to 256; a client's at most its server's; 16 */
  uint64_t max_request_size;  /* a client's at most its server's; 1 MiB */
  uint64_t max_response_size; /* a server's at most its client's; 1 MiB */
  int64_t connect_timeout_ns; /* client: of a call that has to connect first; 10 s */
  double spin_budget;         /* share of one CPU; 0.02 */
  int32_t spin;               /* FRAMELANE_SPIN_; ADAPTIVE */
  int32_t insecure;           /* TCP: as framelane_producer_settings.insecure */
  const char* psk_file;       /* TCP: for both lanes */
  const char* requests;       /* instead of `lane`: the descriptor of each of the two lanes */
  const char* responses;
} framelane_rpc_settings;

/* The defaults, which stand behind each member. `size`: sizeof *settings. */
FRAMELANE_API void framelane_rpc_settings_init(framelane_rpc_settings* settings, size_t size);

/* A client's counters since it was opened. */
typedef struct framelane_client_stats {
  uint32_t size;
  uint32_t in_flight; /* requests without an answer now, given-up ones included */
  uint64_t sent;
  uint64_t answered; /* calls that got their answer, error answers included */
  uint64_t late;     /* answers to calls that were given up: thrown away */
  uint64_t lost;     /* calls whose server left */
  uint64_t sessions; /* times a server was connected */
} framelane_client_stats;

/* The pair NAME-requests and NAME-responses for lane = NAME; or lane = NULL and settings->requests and ->responses.
 * `settings` NULL: the defaults. Doesn't wait for the server. Give it back with framelane_client_close().
 * Threads: every call from any thread. */
FRAMELANE_API framelane_code framelane_client_open(const char* lane, const framelane_rpc_settings* settings,
                                                   framelane_client** client);
/* Leaves both lanes and frees the handle, not while another thread is in one of its calls. Responses stay readable. */
FRAMELANE_API void framelane_client_close(framelane_client* client);
FRAMELANE_API framelane_code framelane_client_connect(framelane_client* client, int64_t timeout_ns);
/* Sends a request and waits for its answer, which is to be given back with framelane_response_unref().
 * FRAMELANE_PEER_LOST: whether the server carried it out is unknown; _FULL: `burst` requests have no answer yet;
 * and what the server answers with framelane_request_respond_error(): its code and its text. */
FRAMELANE_API framelane_code framelane_client_call(framelane_client* client, const void* request, size_t size,
                                                   int64_t timeout_ns, framelane_response** response);
/* The same for a request that was written into a loan, which is kept if the request wasn't sent: `sent` (may be NULL)
 * says whether the loan is used up. */
FRAMELANE_API framelane_code framelane_client_call_loan(framelane_client* client, framelane_loan* request, size_t size,
                                                        int64_t timeout_ns, framelane_response** response,
                                                        int32_t* sent);
/* Sends a request; its answer comes from framelane_call_wait(). `timeout_ns` is that of the whole call. */
FRAMELANE_API framelane_code framelane_client_start(framelane_client* client, const void* request, size_t size,
                                                    int64_t timeout_ns, framelane_call** call);
/* With FRAMELANE_OK the loan is used up. */
FRAMELANE_API framelane_code framelane_client_start_loan(framelane_client* client, framelane_loan* request, size_t size,
                                                         int64_t timeout_ns, framelane_call** call);
/* Lends a slot for a request of at most `size` bytes. */
FRAMELANE_API framelane_code framelane_client_loan(framelane_client* client, size_t size, framelane_loan** loan);
FRAMELANE_API framelane_code framelane_client_reserve(framelane_client* client, size_t size);
FRAMELANE_API void framelane_client_interrupt(framelane_client* client);
FRAMELANE_API void framelane_client_resume(framelane_client* client);
FRAMELANE_API framelane_code framelane_client_get_stats(const framelane_client* client, framelane_client_stats* stats);
/* 1 while a server has agreed and isn't known to be gone. */
FRAMELANE_API int32_t framelane_client_connected(const framelane_client* client);

/* Waits for the answer. FRAMELANE_TIMEOUT with framelane_call_pending() still 1: wait again. */
FRAMELANE_API framelane_code framelane_call_wait(framelane_call* call, int64_t timeout_ns,
                                                 framelane_response** response);
FRAMELANE_API int32_t framelane_call_pending(const framelane_call* call);
/* Gives the call up (the server is told), and frees the handle; for calls that are over only that. */
FRAMELANE_API void framelane_call_free(framelane_call* call);

/* As framelane_frame_ref() and framelane_frame_unref(). */
FRAMELANE_API framelane_response* framelane_response_ref(framelane_response* response);
FRAMELANE_API void framelane_response_unref(framelane_response* response);
FRAMELANE_API const void* framelane_response_data(const framelane_response* response);
FRAMELANE_API size_t framelane_response_size(const framelane_response* response);
FRAMELANE_API int32_t framelane_response_is_copy(const framelane_response* response);

/* ---- Server ----------------------------------------------------------------------------------------------------- */

/* A server's counters since it was opened. */
typedef struct framelane_server_stats {
  uint32_t size;
  uint32_t open;      /* requests that the application still has to answer */
  uint64_t taken;     /* requests given to the application */
  uint64_t answered;  /* by the application, error answers included */
  uint64_t expired;   /* requests dropped: their deadline had passed when their turn came */
  uint64_t cancelled; /* requests dropped: their client had given them up */
  uint64_t sessions;  /* clients that were accepted */
} framelane_server_stats;

/* The same lanes as the client's. Give it back with framelane_server_close(). Threads: next from one at a time, and
 * close not while it runs; requests on any; interrupt, resume and stats from any. */
FRAMELANE_API framelane_code framelane_server_open(const char* lane, const framelane_rpc_settings* settings,
                                                   framelane_server** server);
FRAMELANE_API void framelane_server_close(framelane_server* server);
/* Waits for the next request, which is to be given back with framelane_request_free(). Clients come and go
 * meanwhile. */
FRAMELANE_API framelane_code framelane_server_next(framelane_server* server, int64_t timeout_ns,
                                                   framelane_request** request);
FRAMELANE_API framelane_code framelane_server_reserve(framelane_server* server, size_t size);
FRAMELANE_API void framelane_server_interrupt(framelane_server* server);
FRAMELANE_API void framelane_server_resume(framelane_server* server);
FRAMELANE_API framelane_code framelane_server_get_stats(const framelane_server* server, framelane_server_stats* stats);

/* One thread at a time, any of them. What was sent is valid until framelane_request_free(), also after the answer. */
FRAMELANE_API const void* framelane_request_data(const framelane_request* request);
FRAMELANE_API size_t framelane_request_size(const framelane_request* request);
/* When the client stops waiting, ns of CLOCK_MONOTONIC; FRAMELANE_NO_CLOCK_TIME: never. */
FRAMELANE_API int64_t framelane_request_deadline(const framelane_request* request);
/* 1 when nobody waits for the answer any more. */
FRAMELANE_API int32_t framelane_request_cancelled(const framelane_request* request);
FRAMELANE_API int32_t framelane_request_answered(const framelane_request* request);
FRAMELANE_API framelane_code framelane_request_respond(framelane_request* request, const void* data, size_t size);
/* Lends a slot for an answer of at most `size` bytes. */
FRAMELANE_API framelane_code framelane_request_loan(framelane_request* request, size_t size, framelane_loan** loan);
/* With FRAMELANE_OK the loan is used up. */
FRAMELANE_API framelane_code framelane_request_respond_loan(framelane_request* request, framelane_loan* loan,
                                                            size_t size);
/* Makes the client's call fail with `code` (a framelane_code but OK) and `text`. */
FRAMELANE_API framelane_code framelane_request_respond_error(framelane_request* request, int32_t code,
                                                             const char* text);
/* Gives the handle back; a request without an answer gets an error answer (FRAMELANE_REFUSED). */
FRAMELANE_API void framelane_request_free(framelane_request* request);

/* ---- Observers -------------------------------------------------------------------------------------------------- */

/* What was found behind a lane's name. */
enum {
  FRAMELANE_LANE_ALIVE = 0,  /* a process listens there */
  FRAMELANE_LANE_BUSY = 1,   /* a process listens, but has taken in nobody for a while: stopped, or overloaded */
  FRAMELANE_LANE_STALE = 2,  /* a producer that is gone left its socket */
  FRAMELANE_LANE_FOREIGN = 3 /* no lane: this can't be connected to as one */
};

typedef struct framelane_found_lane {
  uint32_t size;
  int32_t state; /* FRAMELANE_LANE_ */
  char name[72];
  char path[112]; /* of its control socket */
} framelane_found_lane;

/* The lanes in a directory (NULL: the runtime directory), by name: writes the first `capacity` (NULL and 0: none) and
 * how many there are. lanes[0].size says the size of each. Never waits. Lanes served over TCP alone can't be found. */
FRAMELANE_API framelane_code framelane_find_lanes(const char* directory, framelane_found_lane* lanes, size_t capacity,
                                                  size_t* count);
/* "alive", "busy", "stale", "foreign"; "unknown". Never NULL. */
FRAMELANE_API const char* framelane_lane_state_name(int32_t state);

/* A lane as its producer sees it at one moment. Counts are since it was opened: the difference of two with the same
 * instance_id, over the difference of their at_ns, is a rate. All of it is what another process says: texts are made
 * printable ASCII, numbers may be any. */
typedef struct framelane_lane_stats {
  uint32_t size;
  int32_t pid;        /* the producer's, in its own pid namespace */
  int64_t at_ns;      /* CLOCK_MONOTONIC: when this was so */
  int64_t opened_ns;  /* CLOCK_MONOTONIC: when the producer was opened */
  uint64_t slot_size; /* bytes that a frame may have, of the newest segment; 0: none yet */
  uint64_t unread;    /* frames that the slowest gating consumer has to take; at `burst` the lane is full */
  uint64_t published; /* frames */
  uint64_t bytes;     /* of the payloads of those */
  uint64_t dropped_full;
  uint64_t passed_over;
  uint64_t full_waits;
  uint64_t wakes;
  uint64_t demotions;
  uint64_t evictions;
  uint64_t copied;
  int32_t ended;  /* 1: the stream has ended, and no new one has begun */
  int32_t leaky;  /* FRAMELANE_LEAKY_ */
  uint32_t slots; /* that can be used now */
  uint32_t loans; /* slots out for writing */
  uint32_t burst; /* frames */
  uint32_t max_consumers;
  uint32_t num_consumers; /* connected */
  uint32_t padding;
  uint8_t instance_id[16]; /* random, of this producer */
  char program[64];        /* its process's name, cut to 63 bytes */
  char lane[72];
  const char* descriptor; /* all places where it is served; the observer's, until its next framelane_observer_stats() */
  const char* caps;       /* "" when none were set; cut to 4096 bytes; the observer's, likewise */
} framelane_lane_stats;

/* Connects to the lane of a name or descriptor on this host; doesn't wait. It takes no frame, gets no memory, and is
 * never waited for. FRAMELANE_NOT_FOUND: no producer there. Give it back with framelane_observer_close().
 * Threads: one at a time; never in a callback of this library. */
FRAMELANE_API framelane_code framelane_observer_open(const char* lane, framelane_observer** observer);
FRAMELANE_API void framelane_observer_close(framelane_observer* observer);
/* Asks without waiting for the answer, which the next stats call takes: so one thread can ask many lanes at once. */
FRAMELANE_API framelane_code framelane_observer_ask(framelane_observer* observer);
/* Asks, unless ask did, and waits for the answer: the lane, and the first `capacity` of its consumers (NULL and 0:
 * none; stats->num_consumers says how many there are). FRAMELANE_TIMEOUT: ask again later; after another error open
 * anew. */
FRAMELANE_API framelane_code framelane_observer_stats(framelane_observer* observer, int64_t timeout_ns,
                                                      framelane_lane_stats* stats, framelane_consumer_info* consumers,
                                                      size_t capacity);

/* ---- Descriptors ------------------------------------------------------------------------------------------------ */

enum {
  FRAMELANE_SIDE_PRODUCER = 0, /* only a producer may leave the port to the system */
  FRAMELANE_SIDE_CONSUMER = 1
};

/* One place where a lane may be found. Strings: the descriptor's; "" where they don't apply, never NULL. */
typedef struct framelane_address {
  uint32_t size;
  int32_t transport; /* FRAMELANE_TRANSPORT_; AUTO: a bare name */
  uint32_t port;     /* TCP; 0 = any (producers only) */
  uint32_t padding;
  const char* name;
  const char* directory; /* shm and UDS: of the lane's files */
  const char* host;
} framelane_address;

/* Errors say the position, what was expected, and an example. Give it back with framelane_descriptor_free(). */
FRAMELANE_API framelane_code framelane_descriptor_parse(const char* text, int32_t side,
                                                        framelane_descriptor** descriptor);
/* From typed parts, in order of preference. All have addresses[0].size; NULL strings count as "". */
FRAMELANE_API framelane_code framelane_descriptor_from_addresses(const framelane_address* addresses, size_t count,
                                                                 framelane_descriptor** descriptor);
FRAMELANE_API void framelane_descriptor_free(framelane_descriptor* descriptor);
/* The one canonical spelling, and the lane's name. The descriptor's. */
FRAMELANE_API const char* framelane_descriptor_text(const framelane_descriptor* descriptor);
FRAMELANE_API const char* framelane_descriptor_name(const framelane_descriptor* descriptor);
FRAMELANE_API size_t framelane_descriptor_num_addresses(const framelane_descriptor* descriptor);
FRAMELANE_API framelane_code framelane_descriptor_get_address(const framelane_descriptor* descriptor, size_t index,
                                                              framelane_address* address);
/* Path of the first address's control socket. The descriptor's. */
FRAMELANE_API framelane_code framelane_descriptor_socket_path(const framelane_descriptor* descriptor,
                                                              const char** path);
/* Where lanes with bare names live. Writes and returns as snprintf does. */
FRAMELANE_API size_t framelane_runtime_dir(char* text, size_t capacity);

/* ---- Formats ---------------------------------------------------------------------------------------------------- */

enum {
  FRAMELANE_FORMAT_OTHER = 0,  /* caps without a frame layout that is known here, e.g. video/x-h264 */
  FRAMELANE_FORMAT_VIDEO = 1,  /* video/x-raw */
  FRAMELANE_FORMAT_AUDIO = 2,  /* audio/x-raw */
  FRAMELANE_FORMAT_TENSORS = 3 /* other/tensors, format=static */
};

/* A plane of a video frame, shape [rows, columns, channels] of samples. Where the stream says where planes lie
 * (framelane_frame_get_format()) there are no rows that only pad an odd height. Doesn't grow. */
typedef struct framelane_plane {
  uint64_t offset;      /* of the first row, from the start of the frame */
  uint32_t stride;      /* from one row to the next */
  uint32_t rows;        /* all, with those that pad an odd height */
  uint32_t columns;     /* points in a row */
  uint32_t channels;    /* samples of a point: 3 of RGB, 2 of NV12's chroma; 0 where they aren't whole bytes apart */
  uint32_t sample_size; /* bytes of one sample; of one point when channels is 0 */
  uint32_t padding;
} framelane_plane;

typedef struct framelane_video_format {
  uint32_t size;
  int32_t width;  /* pixels */
  int32_t height; /* pixels */
  int32_t fps_n;  /* frames per second = fps_n / fps_d; 0/1 = variable or not known */
  int32_t fps_d;
  uint32_t num_planes;       /* 0: the layout of this format is not known */
  uint64_t frame_size;       /* bytes of a frame with these planes; 0 likewise */
  framelane_plane planes[4]; /* in the order that their offsets have by the caps; filled in, never read */
  char format[32];           /* GStreamer's name, e.g. "NV12" */
  char interlace_mode[32];   /* "" = progressive */
} framelane_video_format;

typedef struct framelane_audio_format {
  uint32_t size;
  int32_t rate; /* samples per second and channel */
  int32_t channels;
  int32_t interleaved;  /* 1: [samples, channels]; 0: [channels, samples] */
  uint32_t sample_size; /* bytes of one sample of one channel; 0: not known; filled in, never read */
  int32_t has_channel_mask;
  uint64_t channel_mask; /* 0 = no positions */
  char format[32];       /* GStreamer's name, e.g. "S16LE" */
} framelane_audio_format;

/* Element types, with NNStreamer's numbers. */
enum {
  FRAMELANE_TENSOR_INT32 = 0,
  FRAMELANE_TENSOR_UINT32 = 1,
  FRAMELANE_TENSOR_INT16 = 2,
  FRAMELANE_TENSOR_UINT16 = 3,
  FRAMELANE_TENSOR_INT8 = 4,
  FRAMELANE_TENSOR_UINT8 = 5,
  FRAMELANE_TENSOR_FLOAT64 = 6,
  FRAMELANE_TENSOR_FLOAT32 = 7,
  FRAMELANE_TENSOR_INT64 = 8,
  FRAMELANE_TENSOR_UINT64 = 9,
  FRAMELANE_TENSOR_FLOAT16 = 10
};

#define FRAMELANE_MAX_RANK 16

/* One tensor of a set. */
typedef struct framelane_tensor {
  uint32_t size;
  int32_t type;                       /* FRAMELANE_TENSOR_ */
  uint32_t rank;                      /* 1 to 16 */
  uint32_t element_size;              /* bytes; filled in, never read */
  uint64_t offset;                    /* from the start of the frame; filled in, never read */
  uint64_t bytes;                     /* of the whole tensor; filled in, never read */
  uint32_t shape[FRAMELANE_MAX_RANK]; /* outermost first, as C and numpy count: [rows, columns] */
  char name[64];                      /* [A-Za-z0-9_-]*; "" = none */
} framelane_tensor;

/* Parses caps text. FRAMELANE_INVALID_ARGUMENT says the position, what was expected, and an example;
 * FRAMELANE_UNSUPPORTED: raw video, raw audio or tensors whose frames are not plain bytes in memory. Other caps are
 * FRAMELANE_FORMAT_OTHER. Give it back with framelane_format_unref(). Any thread; as are all that follow. */
FRAMELANE_API framelane_code framelane_format_parse(const char* caps, framelane_format** format);
/* From values; framelane_format_caps() is then GStreamer's spelling. */
FRAMELANE_API framelane_code framelane_format_from_video(const framelane_video_format* video,
                                                         framelane_format** format);
FRAMELANE_API framelane_code framelane_format_from_audio(const framelane_audio_format* audio,
                                                         framelane_format** format);
/* 1 to 256 tensors, one after the other without padding; all have tensors[0].size. */
FRAMELANE_API framelane_code framelane_format_from_tensors(const framelane_tensor* tensors, size_t count, int32_t fps_n,
                                                           int32_t fps_d, framelane_format** format);
FRAMELANE_API framelane_format* framelane_format_ref(framelane_format* format);
FRAMELANE_API void framelane_format_unref(framelane_format* format);
FRAMELANE_API int32_t framelane_format_kind(const framelane_format* format); /* FRAMELANE_FORMAT_ */
/* The text. The format's. */
FRAMELANE_API const char* framelane_format_caps(const framelane_format* format);
/* Bytes of one frame: of video and tensors; 0 when caps don't say. Of audio: bytes of one sample of all channels. */
FRAMELANE_API uint64_t framelane_format_frame_size(const framelane_format* format);
/* Frames per second; 0 when the caps state none. */
FRAMELANE_API double framelane_format_frame_rate(const framelane_format* format);
FRAMELANE_API framelane_code framelane_format_get_video(const framelane_format* format, framelane_video_format* video);
FRAMELANE_API framelane_code framelane_format_get_audio(const framelane_format* format, framelane_audio_format* audio);
FRAMELANE_API size_t framelane_format_num_tensors(const framelane_format* format);
FRAMELANE_API framelane_code framelane_format_get_tensor(const framelane_format* format, size_t index,
                                                         framelane_tensor* tensor);
/* NNStreamer's name of a type, e.g. "float32"; "unknown". Never NULL. Bytes of one element; 0. And back; -1. */
FRAMELANE_API const char* framelane_tensor_type_name(int32_t type);
FRAMELANE_API uint32_t framelane_tensor_type_size(int32_t type);
FRAMELANE_API int32_t framelane_tensor_type_of(const char* name);

/* ---- Log -------------------------------------------------------------------------------------------------------- */

enum { FRAMELANE_LOG_ERROR = 0, FRAMELANE_LOG_WARNING = 1, FRAMELANE_LOG_INFO = 2, FRAMELANE_LOG_DEBUG = 3 };

/* Receives every line that the library logs, on any thread, never on a frame's way. */
typedef void (*framelane_log_fn)(int32_t level, const char* text, void* user);
/* Replaces where log lines go; NULL brings back the default: standard error, up to the level in $FRAMELANE_LOG. A
 * line that another thread is logging may still reach the old one, so what `user` points to should live on. */
FRAMELANE_API framelane_code framelane_set_log_hook(framelane_log_fn hook, void* user);
FRAMELANE_API void framelane_log(int32_t level, const char* text);

#ifdef __cplusplus
}
#endif

#endif
