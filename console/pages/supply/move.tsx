/** Puts a machine on or off sale, drains, resumes or removes it, after explaining the effect on its tenants. */
import type { ReactNode } from 'react'
import { count } from '../../../src/view/number.ts'
import type { Supplied } from '../../../src/view/supply.ts'
import { useAction } from '../../api/query.ts'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'

export type Move = 'list' | 'unlist' | 'drain' | 'resume' | 'leave'

interface MoveText {
  readonly title: string
  readonly action: string
  readonly effect: ReactNode
  readonly done: string
}

const reads = ['listSupply', 'searchMachines'] as const
const hostStates = { drain: 'draining', resume: 'ready', leave: 'left' } as const

export function MoveDialog({ one, move, onClose }: { one: Supplied; move: Move; onClose: () => void }) {
  const changeHost = useAction('changeSuppliedHost', reads)
  const changeMachine = useAction('changeSuppliedMachine', reads)
  const { title, action, effect, done } = textOf(one, move)
  const onSuccess = (): void => {
    toast(done)
    onClose()
  }
  const params = { id: one.id }
  const confirm = (): void => {
    if (move === 'list' || move === 'unlist') {
      changeMachine.mutate({ params, body: { listed: move === 'list' } }, { onSuccess })
    } else {
      changeHost.mutate({ params, body: { state: hostStates[move] } }, { onSuccess })
    }
  }
  return (
    <ConfirmDialog
      title={title}
      action={action}
      busy={changeHost.isPending || changeMachine.isPending}
      error={changeHost.error ?? changeMachine.error}
      onConfirm={confirm}
      onClose={onClose}
      {...(move === 'leave' ? { word: one.id } : {})}
    >
      {effect}
    </ConfirmDialog>
  )
}

/** Returns why a move is not possible now. undefined: it is. */
export function whyNoMove({ host }: Supplied, move: Exclude<Move, 'list' | 'unlist'>): string | undefined {
  if (host === undefined) return 'The operator manages this machine'
  if (host.state === 'left') return 'It has left; it can join again'
  if (host.state === 'quarantined') return 'It is quarantined; the operator has to release it'
  if (host.state === 'cleaning') return 'It is being cleaned'
  if (move === 'drain' && host.state === 'draining') return 'It is already draining'
  if (move === 'resume' && host.state === 'ready') return 'It already takes tenants'
  if (move === 'resume' && host.stateReason === 'drained by the operator') return 'The operator drained it'
  if (move === 'leave' && host.tenants > 0) return 'It still has tenants; drain it first'
  return undefined
}

function textOf({ id, machine, host }: Supplied, move: Move): MoveText {
  const inUse = machine?.gpusInUse ?? 0
  const tenants = host?.tenants ?? 0
  const stay =
    inUse === 0 && tenants === 0 ? 'It has no rentals now.' : `Current rentals (${count(inUse, 'GPU')}) continue.`
  switch (move) {
    case 'list':
      return {
        title: `Put ${id} on sale?`,
        action: 'Put on sale',
        effect: 'Customers can rent its free GPUs again.',
        done: `${id} is on sale.`,
      }
    case 'unlist':
      return {
        title: `Take ${id} off sale?`,
        action: 'Take off sale',
        effect: `Customers can no longer rent it. ${stay}`,
        done: `${id} is off sale.`,
      }
    case 'drain':
      return {
        title: `Drain ${id}?`,
        action: 'Drain',
        effect: `It accepts no new tenants. ${stay}`,
        done: `${id} is draining.`,
      }
    case 'resume':
      return {
        title: `Resume ${id}?`,
        action: 'Resume',
        effect: 'It accepts new tenants again.',
        done: `${id} accepts new tenants again.`,
      }
    case 'leave':
      return {
        title: `Remove ${id}?`,
        action: 'Remove',
        effect: 'It is no longer on sale and its agent stops. It can join again later. Its earnings stay.',
        done: `Removed ${id}.`,
      }
  }
}
