/** The life of a batch, and what its lines can ask for; apart from the schemas, so that pages need not load those. */
export const batchStatuses = [
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
] as const

/** Why a batch in progress waits. */
export const batchWaits = ['money', 'capacity'] as const
export type BatchWait = (typeof batchWaits)[number]

/** A fault of an input file. */
export interface BatchFault {
  readonly code: string
  /** null: the file as a whole. */
  readonly line: number | null
  readonly message: string
  readonly param: string | null
}

/** The operations that lines can ask for, by the path that a line has in `url`. */
export const batchOperations = {
  '/v1/chat/completions': 'createChatCompletion',
  '/v1/completions': 'createCompletion',
  '/v1/embeddings': 'createEmbedding',
  '/v1/messages': 'createMessage',
} as const
export type BatchPath = keyof typeof batchOperations
export const batchPaths = Object.keys(batchOperations) as readonly BatchPath[]
