/** Orders of machines at the simulated Voltage Park. */

export interface CloudInit {
  readonly write_files?: ReadonlyArray<{ readonly path: string; readonly content: string; readonly encoding?: string }>
  readonly runcmd?: readonly string[]
}

/** The file that the first command runs, as cloud-init writes it. */
export function scriptOf({ write_files = [], runcmd = [] }: CloudInit = {}): string {
  const file = write_files.find(({ path }) => path === runcmd[0])
  return file?.encoding === 'b64' ? Buffer.from(file.content, 'base64').toString('utf8') : (file?.content ?? '')
}

export interface MachineOrder {
  readonly name: string
  readonly tags?: readonly string[]
  readonly ssh_keys?: readonly string[]
}

export interface MetalOrder extends MachineOrder {
  readonly cloudinit_script?: CloudInit
  readonly location_id: string
  readonly gpu_count: number
  readonly network_type: 'ethernet' | 'infiniband'
  readonly suborder?: number
}

export interface VmOrder extends MachineOrder {
  readonly config_id: string
  readonly cloud_init?: CloudInit
}
