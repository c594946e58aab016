// What tests compare with Python's answers.
export const told = (answers) => {
  const of = (name) => answers.map((a) => a[name]);
  const [labels, scores, probabilities, probability, unknown] = ["label", "scores", "probabilities", "probability", "unknown"].map(of);
  return { labels, scores, probabilities, probability, unknown, state: answers[0].state };
};

/** Answers as the bundle has it, and after each swap. */
export async function asked(classifier, samples, count, swaps) {
  const all = [told(await classifier.classify(samples, count))];
  for (const swap of swaps) {
    await classifier.swap(swap);
    all.push(told(await classifier.classify(samples, count)));
  }
  return all;
}
