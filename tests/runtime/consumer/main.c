/* Runs one convolution through the C interface and checks one output. */
#include <knobwise/knobwise.h>
#include <stdio.h>
#include <stdlib.h>

static float weights[8], input[2 * 16], output[4 * 16];

static int report(const char* call) {
  fprintf(stderr, "%s: %s\n", call, knobwise_last_error());
  return EXIT_FAILURE;
}

int main(void) {
  const char* databases[] = {"no-such-file.db"};
  const knobwise_const_buffer parameters[] = {{weights, sizeof weights}};
  const knobwise_const_buffer in = {input, sizeof input};
  const knobwise_buffer out = {output, sizeof output}, none = {NULL, 0};
  knobwise_dispatcher* dispatcher = NULL;
  knobwise_plan* plan = NULL;
  int i;
  for (i = 0; i < 8; ++i) weights[i] = 0.5f;
  for (i = 0; i < 2 * 16; ++i) input[i] = (float)(i % 16);

  if (knobwise_open(databases, 1, "cpu", &dispatcher) != KNOBWISE_OK) return report("open");
  if (knobwise_plan_create(dispatcher, "nonsense", NULL, &plan) != KNOBWISE_INVALID_ARGUMENT)
    return report("plan");
  if (knobwise_plan_create(dispatcher, "conv1d n=1 c=2 w=16 k=4 s=1", NULL, &plan) != KNOBWISE_OK)
    return report("plan");
  if (knobwise_plan_prepare(plan, parameters, 1, NULL) != KNOBWISE_OK) return report("prepare");
  if (knobwise_plan_run(plan, in, out, none, NULL) != KNOBWISE_OK) return report("run");
  printf("%s\noutput[5] = %g\n", knobwise_plan_description(plan), output[5]);
  knobwise_plan_destroy(plan);
  knobwise_close(dispatcher);
  return output[5] == 5.0f ? EXIT_SUCCESS : EXIT_FAILURE;
}
