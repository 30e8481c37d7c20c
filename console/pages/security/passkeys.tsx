/** Passkeys of the person, and the codes that stand for one that was lost. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate } from '../../../src/view/time.ts'
import { refresh, useAction, useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { AddPasskey } from '../../shell/add-passkey.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'

type Passkey = Reply<'listFactors'>['passkeys'][number]

export function Passkeys() {
  const factors = useCall('listFactors')
  const dialog = useDialog()
  const added = (): void => {
    toast('Added a passkey')
    void refresh(['listFactors', 'listSessions', 'getPerson'])
  }
  return (
    <Card title="Passkeys">
      <div className="flex flex-col gap-4">
        <Answer of={factors} skeleton={<Skeleton rows={1} />}>
          {({ passkeys }) => (
            <ul className="flex flex-col gap-3 empty:hidden">
              {passkeys.map((one) => (
                <li key={one.id} className="flex items-start justify-between gap-3 text-sm">
                  <span className="min-w-0">
                    <span className="block font-medium break-words">{one.name}</span>
                    <span className="block text-muted">
                      {one.isSynced ? 'Synced' : 'On one device'}, added {localDate(one.createdAt)}
                      {one.lastUsedAt !== null && `, used ${localDate(one.lastUsedAt)}`}
                    </span>
                  </span>
                  <span className="flex flex-wrap justify-end gap-2">
                    <Button
                      aria-label={`Rename ${one.name}`}
                      onClick={() => dialog.open((close) => <RenameDialog passkey={one} onClose={close} />)}
                    >
                      Rename
                    </Button>
                    <Button
                      aria-label={`Remove ${one.name}`}
                      onClick={() => dialog.open((close) => <RemoveDialog passkey={one} onClose={close} />)}
                    >
                      Remove
                    </Button>
                  </span>
                </li>
              ))}
            </ul>
          )}
        </Answer>
        <AddPasskey onAdded={added} />
      </div>
      {dialog.shown}
    </Card>
  )
}

function RenameDialog({ passkey, onClose }: { passkey: Passkey; onClose: () => void }) {
  return (
    <FieldDialog
      operation="renamePasskey"
      input={{ params: { id: passkey.id } }}
      refreshes={['listFactors']}
      title={`Rename ${passkey.name}`}
      action="Rename"
      before={passkey}
      fields={['name']}
      done={({ name }) => `Renamed to ${name}`}
      onClose={onClose}
    />
  )
}

function RemoveDialog({ passkey: { id, name }, onClose }: { passkey: Passkey; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Remove ${name}?`}
      action="Remove"
      operation="removePasskey"
      input={{ params: { id } }}
      refreshes={['listFactors']}
      done={`Removed ${name}`}
      onClose={onClose}
    >
      <p>It does not sign you in any more. Your recovery codes end with the last passkey.</p>
    </ConfirmCall>
  )
}

export function RecoveryCodes() {
  const factors = useCall('listFactors')
  const create = useAction('createRecoveryCodes', ['listFactors'])
  const [codes, setCodes] = useState<readonly string[]>()
  return (
    <Card title="Recovery codes">
      <Answer of={factors} skeleton={<Skeleton rows={1} />}>
        {({ passkeys, recoveryCodes }) => (
          <div className="flex flex-col gap-3 text-sm">
            <p className="text-muted">
              {recoveryCodes.createdAt === null
                ? 'Codes on paper that stand for a passkey that was lost, each once.'
                : `${recoveryCodes.unused} unused, created ${localDate(recoveryCodes.createdAt)}.`}
            </p>
            {create.error !== null && <ErrorNotice error={create.error} />}
            <div>
              <Button
                busy={create.isPending}
                disabledReason={passkeys.length === 0 ? 'Add a passkey first' : undefined}
                onClick={() => create.mutate({}, { onSuccess: (reply) => setCodes(reply.codes) })}
              >
                Create recovery codes
              </Button>
            </div>
          </div>
        )}
      </Answer>
      {codes !== undefined && <CodesDialog codes={codes} onClose={() => setCodes(undefined)} />}
    </Card>
  )
}

function CodesDialog({ codes, onClose }: { codes: readonly string[]; onClose: () => void }) {
  return (
    <Dialog title="Recovery codes" onClose={onClose} needsButton>
      <div className="flex flex-col gap-4">
        <Notice tone="warn">
          They are shown once, and end the ones before. Print them, or keep them in a safe place.
        </Notice>
        <CodeBlock label="Recovery codes" code={codes.join('\n')} />
        <DialogButtons>
          <Button look="primary" onClick={onClose}>
            I have saved them
          </Button>
        </DialogButtons>
      </div>
    </Dialog>
  )
}
