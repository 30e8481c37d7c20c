/** GPU models and networks as people write them. */
import type { NetworkType } from '../contract/shared.ts'

export const networkLabels = {
  ethernet: 'Ethernet',
  infiniband: 'InfiniBand',
} as const satisfies Record<NetworkType, string>

/** `NVIDIA-GeForce-RTX-4090` → `RTX 4090` */
export function gpuLabel(model: string | undefined): string {
  return (model ?? 'GPU')
    .replaceAll('-', ' ')
    .replace(/^NVIDIA /i, '')
    .replace(/^GeForce /i, '')
}

/** The label without the memory size: `NVIDIA-H100-SXM5-80GB` → `H100 SXM5`. */
export function shortGpuLabel(model: string | undefined): string {
  return gpuLabel(model).replace(/ \d+GB$/, '')
}

/** `8 × H100` */
export function gpusLabel(gpuCount: number, label: string): string {
  return `${gpuCount} × ${label}`
}

/** Whether a label contains the text that someone typed: `rtx4090` and `RTX-4090` both match `RTX 4090`. */
export function isGpuMatch(label: string, text: string): boolean {
  return withoutGaps(label).includes(withoutGaps(text))
}

function withoutGaps(text: string): string {
  return text.toLowerCase().replaceAll(/[\s_-]/g, '')
}
