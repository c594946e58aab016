// Each of these is a mistake that the types find.
import { Classifier, fromPicture, unpacked, type Answer, type Bundle } from "protofleet";

export async function mistakes(classifier: Classifier, bundle: Bundle, answer: Answer) {
  // @ts-expect-error: a bundle is opened, not made
  new Classifier();
  // @ts-expect-error: an answer may have no label
  const label: string = answer.label;
  // @ts-expect-error: an answer is not changed
  answer.state = "";
  // @ts-expect-error: the bytes of a .pfb, not its address
  await unpacked("fleet.pfb");
  // @ts-expect-error: samples are bytes or floats
  await classifier.classify([1, 2, 3]);
  // @ts-expect-error: there is no such precision
  if (bundle.manifest.precision === "fp64") return;
  // @ts-expect-error: of what shape?
  return [label, fromPicture(new Uint8Array(4), 1, 1)];
}
