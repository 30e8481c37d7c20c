/** The limits of every list, body, queue, retry and timeout. */

export const limits = {
  bodyBytes: 1_048_576,
  /** Prompts can contain images. */
  inferenceBodyBytes: 16_777_216,
  /** A sound file to transcribe, its form with all fields, and its length: the most that a file of this size has to be. */
  soundBytes: 25_000_000,
  soundFormBytes: 27_000_000,
  soundMs: 4 * 3_600_000,
  /** One uploaded file, the time that its upload may take, and the time without a byte. */
  uploadBytes: 200_000_000,
  uploadMs: 3_600_000,
  uploadIdleMs: 60_000,
  /** An upload that took longer for a piece has broken off. */
  uploadPieceMs: 600_000,
  uploadsPerAccount: 8,
  filePieceBytes: 1_048_576,
  filesPerAccount: 10_000,
  fileDays: 30,
  /** Stored responses: their time, unless the operator sets another; all of an account; one conversation. */
  responseDays: 30,
  responseBytesPerAccount: 20_000_000_000,
  conversationResponses: 1_000,
  conversationBytes: 33_554_432,
  /** The lines of a batch, its faults that are named, the batches of an account that have not ended, and its time. */
  batchLines: 50_000,
  batchFaults: 100,
  batchesPerAccount: 100,
  batchMs: 86_400_000,
  /** Times that engines may fail at a line. */
  batchLineAttempts: 5,
  /** How long a batch that is cancelled or expires waits for the lines that run. */
  batchDrainMs: 600_000,
  /** Nesting of objects and lists in a request body. */
  jsonDepth: 64,
  pageRows: 1_000,
  pageRowsDefault: 100,
  /** How far into a sorted list a reader can jump. */
  searchOffset: 1_000_000,
  /** The interface's plain lists are not paged; beyond this many rows a cursor is required. */
  plainListRows: 10_000,
  requestIds: 100,
  /** Far more than clients send: the interface sets no limit for labels and attachments. */
  labelChars: 4_096,
  reasonChars: 500,
  nameChars: 255,
  sshKeyChars: 16_384,
  idempotencyKeyChars: 255,
  idempotencyKeptMs: 24 * 3_600_000,
  /** Capacity of a cloud that was not confirmed for so long is not sold. */
  offerAgeMs: 300_000,
  customPorts: 20,
  /** Tokens of one HTTP port. */
  portTokens: 20,
  /** How long a link to a private HTTP port can be opened. */
  portCodeMs: 60_000,
  portCookieMs: 24 * 3_600_000,
  userMetadataBytes: 4_096,
  environmentVariables: 100,
  environmentBytes: 131_072,
  /** The value of a variable, one file, or user data. */
  workloadTextBytes: 65_536,
  workloadFiles: 20,
  /** All files of one rental together. */
  workloadFileBytes: 131_072,
  scriptBytes: 16_384,
  commandWords: 100,
  commandWordChars: 4_096,
  secretBytes: 65_536,
  templateReadmeChars: 20_000,
  secretsPerAccount: 100,
  registryCredentialsPerAccount: 20,
  templatesPerAccount: 100,
  /** Imported bills of one provider account, lines of one bill, and differences of one comparison. */
  billsPerProvider: 500,
  billLines: 10_000,
  billDifferences: 1_000,
  attachmentsPerVolume: 1_000,
  volumesPerRental: 16,
  /** Files of one model's weights. */
  weightsFiles: 500,
  compileCacheVariables: 10,
  /** A download of weights or of an image without a byte for this long is cut. */
  weightsIdleMs: 60_000,
  /** GPU-minutes of an account and day in which starting replicas are free, unless the operator sets another number. */
  freeStartMinutes: 120,
  /** LoRA adapters of one deployment. */
  adapters: 64,
  webhookUrlChars: 2_048,
  webhookAttempts: 12,
  webhookResponseBytes: 16_384,
  webhookTimeoutMs: 10_000,
  sseConnectionsPerAccount: 50,
  sseBufferedBytes: 1_048_576,
  sseHeartbeatMs: 15_000,
  keyCacheEntries: 50_000,
  /** Length of the key in a sign-in request; a valid key has 67 characters. */
  apiKeyChars: 1_000,
  /** The newest sessions of a person, or of a key that was used to sign in. */
  consoleSessionsPerOwner: 20,
  /** How long a sign-in lasts for what needs a recent one. */
  recentSignInMs: 15 * 60_000,
  consoleSessionMs: 7 * 24 * 3_600_000,
  consoleFiles: 2_000,
  consoleFileBytes: 16_777_216,
  /** Longer responses are sent uncompressed. */
  compressedAnswerBytes: 67_108_864,
  /** While this many responses are being compressed, others are sent uncompressed. */
  concurrentCompressions: 2,
  /** One agent with its own Node, compressed. */
  agentBundleBytes: 60_000_000,
  agentDownloads: 64,
  /** The part of these downloads that one host or address may use. */
  agentDownloadsEach: 8,
  agentDownloadMs: 15 * 60_000,
  models: 1_000,
  /** Rows of the operator's list. */
  listedPayments: 500,
  /** Suppliers that one run pays; the rest has its turn in the next. */
  payoutsPerRun: 1_000,
  /** Payouts that a supplier sees. */
  listedPayouts: 200,
  listedPayoutRuns: 100,
  /** Pages to pay on that one account has open. */
  openCheckouts: 10,
  /** Cards that are listed, the newest first. */
  savedCards: 50,
  /** A call of the payment processor. */
  processorTimeoutMs: 20_000,
  /** The largest messages of the processor have some 20 KB. */
  processorMessageBytes: 262_144,
  /** Messages to read in one pass after an outage. */
  processorMessages: 10_000,
  /** Lines of the processor's ledger in one week. */
  processorTransactions: 100_000,
  /** Differences with the processor that one comparison stores and shows. */
  paymentDifferences: 500,
  /** Jobs of one account that have not ended, tasks of one job, and rows of its list. */
  jobsPerAccount: 10_000,
  jobTasks: 1_000,
  /** Schedules of jobs of one account, and the length of their times. */
  jobSchedules: 100,
  cronChars: 200,
  jobTaskRows: 100,
  jobGpus: 64,
  jobSeconds: 30 * 24 * 3_600,
  jobRetries: 100,
  /** Attempts of a task that may be lost with their host. */
  jobRestarts: 10,
  /** How long a job and its results are kept once it has ended. */
  jobDays: 30,
  /** How long a host may take to hand over the output of a job, and the size of it. */
  jobCollectMs: 30 * 60_000,
  jobOutputBytes: 20_000_000_000,
  /** Files that the list of an output names. */
  jobOutputFiles: 1_000,
  jobResultBytes: 1_048_576,
  /** Managed deployments of one account. */
  managedDeployments: 100,
  replicasPerDeployment: 100,
  groupNodesMin: 2,
  /** Each pair of nodes is connected and measured. */
  groupNodes: 16,
  groupRows: 100,
  /** Other accounts that may use a private model. */
  sharedAccounts: 100,
  deploymentsPerModel: 100,
  /** History of the operator's traffic view. */
  trafficMinutes: 180,
  revenueDays: 92,
  /** Groups of a cost report; the rest is one group. */
  costGroups: 50,
  costGroupsDefault: 10,
  /** Longest range of a cost report or statement by day: a leap year. */
  costDays: 366,
  budgets: 100,
  budgetAlerts: 10,
  /** Unread notifications are counted up to this number. */
  unreadNotifications: 100,
  notificationDays: 90,
  /**
   * Codes by email: how many an address gets in an hour, how many the people of one network may ask for, how often one may be
   * typed wrong, and how long it is valid and kept.
   */
  emailCodesPerHour: 3,
  emailCodesPerHourAndNetwork: 100,
  emailCodeTries: 5,
  emailCodeMs: 10 * 60_000,
  /** Accounts that people of one network may open by themselves. */
  accountsPerHour: 5,
  accountsPerDay: 20,
  identityProviders: 50,
  /** One call to an identity provider: its time and the size of its answer; and how long its settings are cached. */
  ssoTimeoutMs: 10_000,
  ssoResponseBytes: 1_048_576,
  ssoSettingsMs: 60_000,
  ssoClockToleranceS: 30,
  /** How long a sign-in at a provider may take. */
  ssoFlowMs: 10 * 60_000,
  /** Invitations: how long one can be accepted, and how many an account may send in a day. */
  invitationDays: 7,
  invitationsPerDay: 50,
  /**
   * Logins of devices: how long a code is valid, how often one person may type wrong ones in that time, how long the key
   * lives, and how many codes a network gets in an hour.
   */
  deviceLoginMs: 10 * 60_000,
  /** How long an approved device may take at least to fetch its key. */
  deviceFetchMs: 60_000,
  deviceCodeTries: 5,
  deviceKeyDays: 90,
  /** How long the secret of a key works at most after it was replaced. */
  keyGraceHours: 720,
  keyGraceHoursDefault: 24,
  deviceKeyDaysDefault: 30,
  deviceLoginsPerHour: 60,
  /** How long the browser may take to bring a code to an agent that signs in with OAuth, and the agent to exchange it. */
  oauthCodeMs: 60_000,
  /** How often a device may ask, and by how much longer it waits after it asked too soon. */
  devicePollS: 5,
  devicePollMostS: 600,
  /** Passkeys of a person, what their authenticators may send, and how long one may take to answer. */
  passkeys: 20,
  passkeyTransports: 10,
  passkeyAnswerChars: 65_536,
  passkeyMs: 5 * 60_000,
  recoveryCodes: 10,
  /** How long a browser may take for a sign-in. */
  signInFlowMs: 30 * 60_000,
  emailCodeKeptMs: 24 * 3_600_000,
  mailAttempts: 10,
  mailTimeoutMs: 20_000,
  mailDays: 30,
  members: 100,
  /** Confirmation e-mails of one day. */
  confirmationsPerAccount: 20,
  confirmationsPerAddress: 3,
  /** How long the link in a confirmation e-mail is valid. */
  mailConfirmationMs: 7 * 24 * 3_600_000,
  /** Notifications named in one e-mail; the others are counted. */
  mailLines: 20,
  /** History of a supplier's daily earnings. */
  earningsDays: 90,
  /** The longest usage summary that also has the days of each group. */
  usageDailyDays: 31,
  /** The end of a machine's output that is kept after the machine. */
  lastLogBytes: 65_536,
  lastLogMs: 30 * 24 * 3_600_000,
  rateSubjects: 100_000,
  requestTimeoutMs: 30_000,
  statementTimeoutMs: 30_000,
} as const

/** The maximum of an upstream or replica without a stated one: the limit in use is learned (domain/admission-limit.ts). */
export const NO_CONCURRENCY_LIMIT = 100_000

/** Ids of rentals and volumes are 32-bit on the wire and in the schema. */
export const MAX_INT32 = 2_147_483_647

/** Default quota of an account; the operator can raise it. */
export const defaultQuota = {
  gpus: 256,
  volumes: 100,
  volumeGb: 512_000,
  keys: 100,
  sshKeys: 100,
  webhooks: 20,
  fileGb: 20,
  requestsPerMinute: 60_000,
  tokensPerMinute: 10_000_000,
  /** One engine's worth: no engine is learned to take more, and the fair queue protects the others of a model. */
  streams: 4_096,
} as const
export type Quota = { readonly [noun in keyof typeof defaultQuota]: number }

/** An account that somebody opened by themselves has this quota until an operator raises it. */
export const signUpQuota: Partial<Quota> = {
  gpus: 8,
  volumes: 10,
  volumeGb: 5_120,
  keys: 20,
  webhooks: 5,
  fileGb: 2,
  requestsPerMinute: 600,
  tokensPerMinute: 500_000,
  streams: 64,
}

/** Requests per minute. A key has its account's: a full GPU answers more than 6,000 short requests. */
export const defaultRates = { perKey: 60_000, perAddress: 6_000, perAddressUnauthenticated: 600 } as const
