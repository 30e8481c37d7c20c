/** Search parameters of this page. */
import { marketplaceSorts } from '../../../src/contract/choices.ts'
import { amount, count, flag, oneOf, searchReader, text } from '../../search.ts'

export const marketplaceSearch = searchReader({
  /** Part of the model name, case-insensitive. */
  gpu: text,
  /** Minimum number of free GPUs. */
  free: count(64),
  /** Maximum USD per GPU-hour. */
  price: amount(0, 1_000),
  region: text,
  /** Every word must occur in the row. */
  text: text,
  /** The template to start with. */
  template: text,
  /** The container whose settings are copied into the order. */
  like: text,
  /** Shows every machine, instead of one row for identical ones. */
  each: flag,
  sort: oneOf(marketplaceSorts),
  down: flag,
})
