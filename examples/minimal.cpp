// Runs one convolution with the fastest kernel that "tuned.db" knows for it, or a safe fallback without one.
#include <knobwise/dispatcher.h>

#include <iostream>
#include <vector>

int main() {
  knobwise::Dispatcher dispatcher({.databases = {"tuned.db"}, .device = "cpu"});
  knobwise::Plan plan = dispatcher.plan("conv2d n=1 c=3 h=32 w=32 k=8 r=3 s=3 pad=1 bias | relu");
  std::vector<float> weights(8 * 3 * 3 * 3, 0.1f), bias(8, 0.5f);
  std::vector<float> input(3 * 32 * 32, 1.0f), output(8 * 32 * 32);
  plan.prepare({weights, bias});
  plan.run(input, output);
  std::cout << plan.description().to_string() << "\ncentre: " << output[16 * 32 + 16] << "\n";
}
