/** Taking a machine off sale and putting it back, each after saying what it means for those who are on it. */
import type { ReactNode } from 'react'
import { count } from '../../../src/view/number.ts'
import type { Supplied } from '../../../src/view/supply.ts'
import { useAction } from '../../api/query.ts'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'

export type Move = 'list' | 'unlist' | 'drain' | 'resume' | 'leave'

interface MoveWords {
  readonly title: string
  readonly action: string
  readonly meaning: ReactNode
  readonly done: string
}

const reads = ['listSuppliedHosts', 'listSuppliedMachines', 'listMachines'] as const
const hostStates = { drain: 'draining', resume: 'ready', leave: 'left' } as const

export function MoveDialog({ one, move, onClose }: { one: Supplied; move: Move; onClose: () => void }) {
  const changeHost = useAction('changeSuppliedHost', reads)
  const changeMachine = useAction('changeSuppliedMachine', reads)
  const { title, action, meaning, done } = wordsOf(one, move)
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
      {meaning}
    </ConfirmDialog>
  )
}

/** undefined: it can be done now; else why not. */
export function whyNoMove({ host }: Supplied, move: Exclude<Move, 'list' | 'unlist'>): string | undefined {
  if (host === undefined) return 'It has no agent; the operator looks after it'
  if (host.state === 'left') return 'It has left; it comes back by joining again'
  if (host.state === 'quarantined') return 'It is in quarantine; the operator decides'
  if (host.state === 'cleaning') return 'It is being cleaned; wait a moment'
  if (move === 'drain' && host.state === 'draining') return 'It is draining already'
  if (move === 'resume' && host.state === 'ready') return 'It takes tenants already'
  if (move === 'resume' && host.stateReason === 'drained by the operator') return 'The operator has drained it'
  if (move === 'leave' && host.tenants > 0) return 'It still has tenants; drain it and wait until they have gone'
  return undefined
}

function wordsOf({ id, machine, host }: Supplied, move: Move): MoveWords {
  const inUse = machine?.gpusInUse ?? 0
  const tenants = host?.tenants ?? 0
  const stay =
    inUse === 0 && tenants === 0 ? 'Nothing runs on it now.' : `What runs on it (${count(inUse, 'GPU')}) goes on.`
  switch (move) {
    case 'list':
      return {
        title: `Put ${id} on sale?`,
        action: 'Put on sale',
        meaning: 'Customers see it again and can rent its free GPUs.',
        done: `${id} is on sale.`,
      }
    case 'unlist':
      return {
        title: `Take ${id} off sale?`,
        action: 'Take off sale',
        meaning: `Customers no longer see it. ${stay}`,
        done: `${id} is off sale.`,
      }
    case 'drain':
      return {
        title: `Drain ${id}?`,
        action: 'Drain',
        meaning: `No new tenants come; those that are there stay until they leave. ${stay}`,
        done: `${id} is draining.`,
      }
    case 'resume':
      return {
        title: `Let tenants on ${id} again?`,
        action: 'Resume',
        meaning: 'It is on sale again.',
        done: `${id} takes tenants again.`,
      }
    case 'leave':
      return {
        title: `Take ${id} away for good?`,
        action: 'Leave',
        meaning:
          'It is no longer on sale, and its agent stops. To come back it has to join again. What it has earned stays.',
        done: `${id} has left.`,
      }
  }
}
