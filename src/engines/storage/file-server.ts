/**
 * The port to a server of shared folders: volumes of a fixed size, each open to exactly the addresses that it was told.
 * The list of clients is replaced as a whole, so that asking twice, or late, changes nothing.
 */

export interface FileServer {
  /** The address at which clients mount. */
  readonly vip: string
  /** Throws, with a sentence, when it does not serve what it should. */
  check(signal: AbortSignal): Promise<void>
  /** Every volume that was made, with what is wrong with it. An error is never an empty list. */
  list(signal: AbortSignal): Promise<StoredVolume[]>
  /** How large a volume there is room for now. Read beside everything else that goes on, so it may be out of date. */
  roomGb(): Promise<number>
  /**
   * Idempotent. Resolves after the data is on the disk. Throws `StorageFull`, and leaves nothing behind, when there is
   * no room for all that was promised.
   */
  create(id: string, sizeGb: number, signal: AbortSignal): Promise<void>
  /** Removes its data for good. Idempotent; refused while it has clients. */
  destroy(id: string, signal: AbortSignal): Promise<void>
  /** When it resolves, exactly these may use it. All others are refused, also those that have it mounted. */
  setClients(id: string, addresses: readonly string[], signal: AbortSignal): Promise<void>
  /** What a client mounts: `mount -t nfs4 <vip>:<path>`. */
  exportPath(id: string): string
  /** Lets go of it. Clients are served on, and whoever opens it next goes on with what there is. */
  close(): Promise<void>
  /** Ends the serving for good: clients hang. The data stays. */
  shutDown(): Promise<void>
}

export interface StoredVolume {
  readonly id: string
  readonly sizeGb: number
  readonly clients: readonly string[]
  /** Why it cannot be used: its data is missing, or cannot be mounted. null: it is there. */
  readonly fault: string | null
}

/** What a pino logger is, as far as this room uses it. */
export interface StorageLog {
  info(detail: object, message: string): void
  warn(detail: object, message: string): void
}

/** Volumes are promised whole, so one that could not be filled is not made. */
export class StorageFull extends Error {}
