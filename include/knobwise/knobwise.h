/* The C interface of the runtime: dispatchers, plans and runs, as knobwise/dispatcher.h describes them.
 *
 * No call ends the process or throws; each returns a status, and knobwise_last_error() has the message of the
 * calling thread's last failure. Pointers to tensors are memory of the dispatcher's device, aligned to 16
 * bytes. Thread safety is that of the C++ classes: plans may be asked for, and run, from any number of
 * threads at once. */
#ifndef KNOBWISE_KNOBWISE_H
#define KNOBWISE_KNOBWISE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum knobwise_status {
  KNOBWISE_OK = 0,
  KNOBWISE_INVALID_ARGUMENT = 1, /* A mistake of the caller, or no kernel meets the requirement. */
  KNOBWISE_DEVICE_ERROR = 2,     /* The device or its driver failed at work. */
  KNOBWISE_OUT_OF_MEMORY = 3,    /* Host memory. Missing device memory is a KNOBWISE_INVALID_ARGUMENT. */
  KNOBWISE_INTERNAL_ERROR = 4    /* A defect of the library. */
} knobwise_status;

typedef struct knobwise_dispatcher knobwise_dispatcher;
typedef struct knobwise_plan knobwise_plan;

/* Device memory with its size in bytes; not owned. */
typedef struct knobwise_buffer {
  void* data;
  size_t bytes;
} knobwise_buffer;
typedef struct knobwise_const_buffer {
  const void* data;
  size_t bytes;
} knobwise_const_buffer;

/* What a caller asks of a kernel. All zero is the default. */
typedef struct knobwise_requirement {
  const char* accuracy; /* "allclose", "tf32", "half", "bf16", "any", "rel_fro=1e-4"; NULL: by data type. */
  const char* allow;    /* "exact,nearest,family_default,vendor,reference"; NULL: all. */
  int limit_workspace;  /* Not 0: max_workspace_bytes counts. */
  size_t max_workspace_bytes; /* The most scratch memory of a run. */
  int deterministic;          /* Not 0: equal inputs give bit-equal outputs. */
  int allow_stale;            /* Not 0: trust results of other versions of the kernel sources. */
} knobwise_requirement;

/* How a dispatcher works. All zero is the default. Only read during the call; relative paths are those of the
 * current folder then. */
typedef struct knobwise_options {
  const char* const* databases; /* First match first. One that cannot be read costs a note. */
  size_t database_count;
  const char* const* trusted; /* Those of the databases whose code for the processor may be run. */
  size_t trusted_count;
  const char* device;     /* "cpu", "cuda", "cuda:0", "best"; NULL: "best". */
  const char* code_cache; /* Folder of compiled code; NULL: $KNOBWISE_CACHE, else in the home folder. */
  /* Above 0: problems without an exact answer are tuned for so long in the background, by `executable` (NULL:
   * $KNOBWISE_EXECUTABLE, else `knobwise` on the PATH), into the first database; serves after a refresh. */
  double tune_seconds;
  double tune_limit_seconds; /* When the process is ended; 0: twice tune_seconds and a minute. */
  const char* tune_executable;
  /* Called once for each problem and requirement with what was decided, one JSON object, from the thread that
   * asked, and again when a refresh changed that; NULL: a line on standard error, as for every note. Must not
   * throw or jump. */
  void (*on_new_plan)(const char* description, void* context);
  void* context; /* For on_new_plan. */
} knobwise_options;

typedef enum knobwise_tuning_state {
  KNOBWISE_TUNING_NONE = 0, /* Switched off, answered exactly, or failed before the last refresh. */
  KNOBWISE_TUNING_WAITING = 1,
  KNOBWISE_TUNING_RUNNING = 2,
  KNOBWISE_TUNING_FINISHED = 3, /* A refresh lets the result serve. */
  KNOBWISE_TUNING_FAILED = 4
} knobwise_tuning_state;

/* "0.1.0" */
const char* knobwise_version(void);
/* The message of the calling thread's last failure, cut after 1023 bytes at most; "" if there was none. Valid until its
 * next failure. */
const char* knobwise_last_error(void);

/* Opens a device ("cpu", "cuda", "cuda:0", "best"; NULL is "best") and `count` databases, first match first.
 * A database that cannot be read costs a note, no failure: see knobwise_notes(). */
knobwise_status knobwise_open(const char* const* databases, size_t count, const char* device,
                              knobwise_dispatcher** dispatcher);
/* The same with every option; NULL stands for the defaults. */
knobwise_status knobwise_open_with(const knobwise_options* options, knobwise_dispatcher** dispatcher);
/* Plans stay usable; tuning in the background ends. NULL is allowed. */
void knobwise_close(knobwise_dispatcher* dispatcher);
/* What is wrong with the databases, a line each, cut to `bytes` with the final 0; "" when all is well. */
knobwise_status knobwise_notes(const knobwise_dispatcher* dispatcher, char* text, size_t bytes);
/* Reads the databases again for plans from now on. */
knobwise_status knobwise_refresh(knobwise_dispatcher* dispatcher);
/* What became of tuning a problem in the background; never waits. Its message, cut to `message_bytes` with
 * the final 0, goes to `message`, which may be NULL. `requirement` may be NULL. */
knobwise_status knobwise_tuning(const knobwise_dispatcher* dispatcher, const char* problem,
                                const knobwise_requirement* requirement, knobwise_tuning_state* state,
                                char* message, size_t message_bytes);

/* A plan for a problem line ("conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu"). `requirement` may
 * be NULL. The caller destroys the plan. */
knobwise_status knobwise_plan_create(knobwise_dispatcher* dispatcher, const char* problem,
                                     const knobwise_requirement* requirement, knobwise_plan** plan);
/* NULL is allowed. */
void knobwise_plan_destroy(knobwise_plan* plan);

/* What runs and how it was found, as one JSON object; valid as long as the plan. NULL for a NULL plan, or
 * without memory. */
const char* knobwise_plan_description(const knobwise_plan* plan);
/* 0 for a NULL plan. */
size_t knobwise_plan_input_bytes(const knobwise_plan* plan);
size_t knobwise_plan_output_bytes(const knobwise_plan* plan);
size_t knobwise_plan_workspace_bytes(const knobwise_plan* plan);

/* Takes weights, bias and further parameters and packs them once; they must outlive the runs. `stream` is a
 * CUstream, or NULL. */
knobwise_status knobwise_plan_prepare(knobwise_plan* plan, const knobwise_const_buffer* parameters,
                                      size_t count, void* stream);
/* Runs the problem on `stream`. A `workspace` whose data is NULL stands for the plan's own. */
knobwise_status knobwise_plan_run(knobwise_plan* plan, knobwise_const_buffer input, knobwise_buffer output,
                                  knobwise_buffer workspace, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* KNOBWISE_KNOBWISE_H */
