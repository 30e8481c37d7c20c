/** Search parameters of this page. */
import { gpuTypes, networkTypes, regions, rentalTypes } from '../../../src/contract/choices.ts'
import { count, oneOf, searchReader, text } from '../../search.ts'

export const rentSearch = searchReader({
  kind: oneOf(['container', ...rentalTypes]),
  region: oneOf(regions),
  gpu: oneOf(gpuTypes),
  network: oneOf(networkTypes),
  /** The template to start with. */
  template: text,
  /** The rental whose settings are copied into the form. */
  like: text,
  count: count(4_096),
})
