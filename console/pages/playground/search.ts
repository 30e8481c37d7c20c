/** Search parameters of the chat, image and speech pages. */
import { searchReader, text } from '../../search.ts'

export const playgroundSearch = searchReader({
  /** The second model of a comparison. */
  with: text,
  model: text,
})
