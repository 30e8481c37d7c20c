/** The size and the name of a new volume, as they are typed. */
import { volumeSize } from '../../../src/contract/volume.ts'

export const STEP_GB = volumeSize.stepGb
export const MAX_GB = volumeSize.maxGb

export interface VolumeTexts {
  readonly label: string
  readonly sizeGb: string
}

export const usualVolume: VolumeTexts = { label: '', sizeGb: String(STEP_GB) }

/** What is wrong at which field; sizes that cannot be read count as zero. */
export function readVolume(texts: VolumeTexts): {
  readonly label: string
  readonly sizeGb: number
  readonly faults: { readonly label?: string; readonly sizeGb?: string }
} {
  const label = texts.label.trim()
  const sizeGb = /^\d{1,6}$/.test(texts.sizeGb.trim()) ? Number.parseInt(texts.sizeGb, 10) : 0
  const fits = sizeGb >= STEP_GB && sizeGb <= MAX_GB && sizeGb % STEP_GB === 0
  return {
    label,
    sizeGb: fits ? sizeGb : 0,
    faults: {
      ...(/^[A-Za-z0-9_-]{4,255}$/.test(label)
        ? {}
        : { label: 'Four characters or more: letters, digits, hyphen and underscore' }),
      ...(fits ? {} : { sizeGb: `${STEP_GB} to 64,000, in steps of ${STEP_GB}` }),
    },
  }
}
