/** Every list, body, queue, retry and time-out has a limit, and the limit has a name. */

export const limits = {
  bodyBytes: 1_048_576,
  /** Prompts are long, and pictures in them longer. */
  inferenceBodyBytes: 16_777_216,
  /** Of a request's body, in objects and lists. */
  jsonDepth: 64,
  pageRows: 1_000,
  pageRowsDefault: 100,
  /** The plain list calls of the interface answer in one piece; past this many rows a cursor is needed. */
  plainListRows: 10_000,
  requestIds: 100,
  /** Far beyond what clients send: the interface gives labels and attachments no limit. */
  labelChars: 4_096,
  reasonChars: 500,
  nameChars: 255,
  sshKeyChars: 16_384,
  idempotencyKeyChars: 255,
  idempotencyKeptMs: 24 * 3_600_000,
  customPorts: 20,
  userMetadataBytes: 4_096,
  attachmentsPerVolume: 1_000,
  volumesPerRental: 16,
  webhookUrlChars: 2_048,
  webhookAttempts: 12,
  webhookResponseBytes: 16_384,
  webhookTimeoutMs: 10_000,
  sseConnectionsPerAccount: 50,
  sseBufferedBytes: 1_048_576,
  sseHeartbeatMs: 15_000,
  keyCacheEntries: 50_000,
  /** Of what is typed to sign in; a key has 67. */
  apiKeyChars: 1_000,
  consoleSessionsPerKey: 20,
  consoleSessionMs: 7 * 24 * 3_600_000,
  consoleFiles: 2_000,
  consoleFileBytes: 16_777_216,
  /** A longer answer is sent as it is. */
  packedAnswerBytes: 67_108_864,
  /** While so many are packed, others are sent as they are. */
  packedAnswersAtOnce: 2,
  models: 1_000,
  deploymentsPerModel: 100,
  /** How far the operator's view of traffic goes back. */
  trafficMinutes: 180,
  /** How far a supplier's earnings by day go back. */
  earningsDays: 90,
  rateSubjects: 100_000,
  drainMs: 8_000,
  requestTimeoutMs: 30_000,
  statementTimeoutMs: 30_000,
} as const

/** Ids of rentals and volumes are 32-bit on the wire and in the schema. */
export const MAX_INT32 = 2_147_483_647

/** What one account may hold unless the operator raises it. */
export const defaultQuota = {
  gpus: 256,
  volumes: 100,
  volumeGb: 512_000,
  keys: 100,
  sshKeys: 100,
  webhooks: 20,
  requestsPerMinute: 60_000,
  tokensPerMinute: 10_000_000,
  streams: 500,
} as const
export type Quota = { readonly [noun in keyof typeof defaultQuota]: number }

/** Requests per minute. */
export const defaultRates = { perKey: 6_000, perAddress: 6_000, perAddressUnauthenticated: 600 } as const
