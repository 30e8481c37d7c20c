/** Search parameters of this page. */
import { flag, searchReader, text } from '../../search.ts'

export const volumesSearch = searchReader({
  /** The create dialog is open, for this region and machine. */
  create: flag,
  region: text,
  machine: text,
})
