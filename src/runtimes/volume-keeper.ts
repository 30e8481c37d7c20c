/** Reconciles the volumes of a host with its desired state; part of keeper.ts. */
import type { HostVolumeStatus, HostReport, DesiredVolume } from '../contract/agent.ts'
import type { RuntimeVolumes } from './runtime.ts'

export interface VolumeKeeperOptions {
  readonly volumes: RuntimeVolumes
  /** Something was done in the background: look again. */
  readonly changed: (signal: AbortSignal) => void
  readonly onError: (what: string, error: unknown) => void
  /** Turns an error into a text for the report. */
  readonly messageOf: (error: unknown) => string
}

interface Copy {
  readonly control: AbortController
  isRunning: boolean
  /** The error of the last failed attempt. It is reported until a copy succeeds. */
  error: unknown
  /** A pass has reported the error, so the next one tries again. */
  isReported: boolean
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
    desiredVolumes: readonly DesiredVolume[],
    signal: AbortSignal,
  ): Promise<Pick<HostReport, 'volumes' | 'volumeSizes' | 'volumeFaults'>> {
    const { volumes, onError, messageOf } = this.#options
    const there = new Map((await volumes.list(signal)).map((one) => [one.id, one]))
    const faults = new Map<string, string>()
    for (const volume of desiredVolumes) {
      try {
        const status = await this.#apply(volume, there.get(volume.id), signal)
        if (status === undefined) there.delete(volume.id)
        else there.set(volume.id, status)
      } catch (error) {
        const message = messageOf(error)
        faults.set(volume.id, message)
        // Retried on every pass; logged when the cause is new.
        if (this.#faults.get(volume.id) !== message) onError(`volume ${volume.id}`, error)
      }
    }
    this.#faults = faults
    for (const [id, { control }] of this.#copies) if (!desiredVolumes.some((one) => one.id === id)) control.abort()
    return {
      volumes: [...there.keys()],
      volumeSizes: [...there.values()],
      volumeFaults: [...faults].map(([id, message]) => ({ id, message })),
    }
  }

  /** Returns the volume after the change. undefined: there is no such volume. */
  async #apply(
    volume: DesiredVolume,
    status: HostVolumeStatus | undefined,
    signal: AbortSignal,
  ): Promise<HostVolumeStatus | undefined> {
    const { volumes } = this.#options
    const { id, sizeGb } = volume
    if (volume.want === 'gone') {
      const copy = this.#copies.get(id)
      copy?.control.abort()
      // The volume stays listed until nothing writes to it any more.
      if (copy?.isRunning === true) return status ?? { id, sizeGb, usedGb: null }
      this.#copies.delete(id)
      // A volume that is not listed may have left a part of a copy that the end of the agent interrupted.
      await volumes.destroy(id, signal)
      return undefined
    }
    if (status === undefined) {
      // A lost volume is never created again: it would be empty.
      if (volume.made) throw new Error('The file of the volume disappeared from its host.')
      if (volume.copyOf !== undefined) return this.#copy(volume, signal)
      await volumes.create(volume, signal)
      return { id, sizeGb, usedGb: null }
    }
    if (status.sizeGb >= sizeGb) return status
    await volumes.grow(volume, signal)
    return { ...status, sizeGb }
  }

  /** Copies in the background, because it takes long. Throws the error of the last attempt. */
  #copy(volume: DesiredVolume, signal: AbortSignal): undefined {
    const last = this.#copies.get(volume.id)
    if (last === undefined || (!last.isRunning && last.isReported)) this.#startCopy(volume, last?.error, signal)
    else last.isReported = true
    if (last?.error !== undefined) throw last.error
    return undefined
  }

  #startCopy(volume: DesiredVolume, error: unknown, signal: AbortSignal): void {
    const copy: Copy = { control: new AbortController(), isRunning: true, error, isReported: false }
    this.#copies.set(volume.id, copy)
    void this.#options.volumes
      .create(volume, AbortSignal.any([signal, copy.control.signal]))
      .then(
        () => void this.#copies.delete(volume.id),
        (failure: unknown) => {
          if (copy.control.signal.aborted) this.#copies.delete(volume.id)
          else Object.assign(copy, { error: failure, isReported: false })
        },
      )
      .finally(() => {
        copy.isRunning = false
        this.#options.changed(signal)
      })
  }
}
