/** Reconciles the volumes of a host with its desired state; part of keeper.ts. */
import type { FoundVolume, HostReport, WantedVolume } from '../contract/agent.ts'
import type { RuntimeVolumes } from './runtime.ts'

export interface VolumeKeeperOptions {
  readonly volumes: RuntimeVolumes
  /** Something was done in the background: look again. */
  readonly changed: (signal: AbortSignal) => void
  readonly onError: (what: string, error: unknown) => void
  /** For the report. */
  readonly messageOf: (error: unknown) => string
}

interface Copy {
  isRunning: boolean
  error: unknown
}

export class VolumeKeeper {
  readonly #options: VolumeKeeperOptions
  /** Errors of the last pass, by volume id. */
  #faults: ReadonlyMap<string, string> = new Map()
  readonly #copies = new Map<string, Copy>()

  constructor(options: VolumeKeeperOptions) {
    this.#options = options
  }

  async reconcile(
    wanted: readonly WantedVolume[],
    signal: AbortSignal,
  ): Promise<Pick<HostReport, 'volumes' | 'volumeSizes' | 'volumeFaults'>> {
    const { volumes, onError, messageOf } = this.#options
    const there = new Map((await volumes.list(signal)).map((one) => [one.id, one]))
    const faults = new Map<string, string>()
    for (const volume of wanted) {
      try {
        const found = await this.#apply(volume, there.get(volume.id), signal)
        if (found === undefined) there.delete(volume.id)
        else there.set(volume.id, found)
      } catch (error) {
        const message = messageOf(error)
        faults.set(volume.id, message)
        // Retried on every pass; logged when the cause is new.
        if (this.#faults.get(volume.id) !== message) onError(`volume ${volume.id}`, error)
      }
    }
    this.#faults = faults
    return {
      volumes: [...there.keys()],
      volumeSizes: [...there.values()],
      volumeFaults: [...faults].map(([id, message]) => ({ id, message })),
    }
  }

  /** The volume as it is afterwards. undefined: it is not there. */
  async #apply(
    volume: WantedVolume,
    found: FoundVolume | undefined,
    signal: AbortSignal,
  ): Promise<FoundVolume | undefined> {
    const { volumes } = this.#options
    const { id, sizeGb } = volume
    if (volume.want === 'gone') {
      // A copy in progress would appear later.
      if (this.#copies.get(id)?.isRunning === true) return found ?? { id, sizeGb, usedGb: null }
      if (found !== undefined) await volumes.destroy(id, signal)
      return undefined
    }
    if (found === undefined) {
      // A lost volume is never created again: it would be empty.
      if (volume.made) throw new Error('The file of the volume disappeared from its host.')
      if (volume.copyOf !== undefined) return this.#copy(volume, signal)
      await volumes.create(volume, signal)
      return { id, sizeGb, usedGb: null }
    }
    if (found.sizeGb >= sizeGb) return found
    await volumes.grow(volume, signal)
    return { ...found, sizeGb }
  }

  /** In the background, because it takes long. Throws the error of the last attempt, once. */
  #copy(volume: WantedVolume, signal: AbortSignal): undefined {
    const last = this.#copies.get(volume.id)
    if (last?.isRunning === true) return undefined
    this.#copies.delete(volume.id)
    if (last?.error !== undefined) throw last.error
    const copy: Copy = { isRunning: true, error: undefined }
    this.#copies.set(volume.id, copy)
    void this.#options.volumes
      .create(volume, signal)
      .catch((error: unknown) => {
        copy.error = error
      })
      .finally(() => {
        copy.isRunning = false
        this.#options.changed(signal)
      })
    return undefined
  }
}
