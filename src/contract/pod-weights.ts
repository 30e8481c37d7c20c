/** The instructions for the program that downloads weights into a pod, which it gets as a file. */
import { z } from 'zod'
import { hostWeights } from './weights.ts'

/** The scheme in `Authorization`, before the token of a pod. */
export const POD_SCHEME = 'Berth-Pod'

/** The folder, in a storage claim that pods of one node share, that has the files once all of them are complete. */
export const SHARED_FOLDER = 'files'
/** Tells the program that other pods may use its folder at the same time. */
export const SHARED_FLAG = '--shared'

export const podWeights = z.object({
  /** The URL at which the pod reaches the server, without a slash at the end. */
  server: z.url(),
  workloadId: z.string().min(1),
  authorization: z.string().min(1),
  /** Whether they may come from private addresses other than the server. */
  allowPrivate: z.boolean(),
  folder: z.string().min(1),
  files: hostWeights.shape.files,
})
export type PodWeights = z.output<typeof podWeights>
