/** A generated image, and the order for it. */
import type { CallInput } from '../../../src/client/client.ts'

export type ImageOrder = CallInput<'generateImage'>['body']

export interface GeneratedImage {
  readonly requestId: string
  readonly order: ImageOrder
  readonly url: string
  readonly seed: number
  readonly seconds: number
  readonly notes: readonly string[]
}
