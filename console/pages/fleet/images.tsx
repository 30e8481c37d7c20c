/** Images that virtual machines start from: hosts fetch one once and hold it against its checksum. */
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate } from '../../../src/view/time.ts'
import { useAction, useCall } from '../../api/query.ts'
import { useCreate } from '../../api/create.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CancelButton, ConfirmDialog, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Image = Reply<'listBaseImages'>['images'][number]

const arches = ['x64', 'arm64'] as const

export function FleetImages() {
  const images = useCall('listBaseImages')
  const [isAdding, setAdding] = useState(false)
  const [going, setGoing] = useState<Image | undefined>()
  const add = (
    <Button look="primary" onClick={() => setAdding(true)}>
      Add an image
    </Button>
  )
  return (
    <Card title="Base images" actions={add}>
      <Answer of={images}>
        {(reply) => (
          <Table
            label="Base images"
            columns={columnsOf(setGoing)}
            rows={reply.images}
            rowKey={(image) => image.name}
            empty={
              <Empty title="No image is named yet">
                Virtual machines then start from the small image that each host builds for itself. Name a cloud image,
                such as Debian or Ubuntu, to start from that.
              </Empty>
            }
          />
        )}
      </Answer>
      {isAdding && <ImageForm onClose={() => setAdding(false)} />}
      {going !== undefined && <DeleteImage image={going} onClose={() => setGoing(undefined)} />}
    </Card>
  )
}

function columnsOf(remove: (image: Image) => void): ReadonlyArray<Column<Image>> {
  return [
    {
      name: 'name',
      header: 'Name',
      cell: (image) => (
        <span className="flex flex-wrap items-center gap-2">
          <span className="font-medium">{image.name}</span>
          {image.isDefault && <Badge tone="info">default</Badge>}
        </span>
      ),
    },
    { name: 'arch', header: 'Processor', cell: (image) => image.arch },
    { name: 'user', header: 'Log in as', cell: (image) => image.loginUser },
    {
      name: 'source',
      header: 'Comes from',
      cell: (image) => (
        <span className="break-all" title={`sha256 ${image.sha256}`}>
          {image.source}
        </span>
      ),
    },
    { name: 'created', header: 'Since', wideOnly: true, cell: (image) => localDate(image.createdAt) },
    {
      name: 'delete',
      header: <span className="sr-only">Delete</span>,
      align: 'right',
      cell: (image) => (
        <Button look="quiet" aria-label={`Delete ${image.name}`} onClick={() => remove(image)}>
          Delete
        </Button>
      ),
    },
  ]
}

function DeleteImage({ image, onClose }: { image: Image; onClose: () => void }) {
  const action = useAction('deleteBaseImage', ['listBaseImages'])
  const confirm = (): void =>
    action.mutate(
      { params: { id: image.name } },
      {
        onSuccess: () => {
          toast(`${image.name} is forgotten.`)
          onClose()
        },
      },
    )
  return (
    <ConfirmDialog
      title={`Delete ${image.name}`}
      action="Delete"
      busy={action.isPending}
      error={action.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      Machines that have started from it run on. New ones cannot start from it any more.
    </ConfirmDialog>
  )
}

const fields = ['name', 'arch', 'source', 'sha256', 'loginUser']

function ImageForm({ onClose }: { onClose: () => void }) {
  const [values, setValues] = useState({ name: '', source: '', sha256: '', loginUser: '' })
  const [arch, setArch] = useState<(typeof arches)[number]>('x64')
  const [isDefault, setDefault] = useState(false)
  const action = useCreate('addBaseImage', ['listBaseImages'])
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    action.mutate(
      { body: { ...values, sha256: values.sha256.trim().toLowerCase(), arch, isDefault } },
      {
        onSuccess: (image) => {
          toast(`${image.name} is there.`)
          onClose()
        },
      },
    )
  }
  const of = (name: keyof typeof values) => ({
    value: values[name],
    error: fieldError(action.error, name),
    onChange: (event: { target: { value: string } }) =>
      setValues((before) => ({ ...before, [name]: event.target.value })),
  })
  const beside = errorBesideFields(action.error, fields)
  return (
    <Dialog title="Add a base image" onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <TextField label="Name" hint="What orders call it: debian-12" required {...of('name')} />
        <TextField label="Comes from" hint="https://…, or file:/… on the hosts themselves" required {...of('source')} />
        <TextField label="SHA-256" hint="64 hexadecimal digits, as sha256sum prints them" required {...of('sha256')} />
        <TextField label="Log in as" hint="The user that its cloud-init makes: debian" required {...of('loginUser')} />
        <SelectField
          label="Processor"
          choices={arches.map((value) => ({ value, label: value }))}
          value={arch}
          onChange={(event) => setArch(arches.find((one) => one === event.target.value) ?? 'x64')}
        />
        <CheckField
          label="For orders that name none"
          hint="There is one of each processor; it takes the place of the one before."
          checked={isDefault}
          onChange={(event) => setDefault(event.target.checked)}
        />
        {beside !== null && <ErrorNotice error={beside} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={action.isPending}>Add it</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
