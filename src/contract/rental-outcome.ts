/**
 * Why a rental failed or ended, and the next step where there is one. Engines and agents report these reasons; the API
 * passes them on as `statusReason`.
 */
const rentAgain = 'Terminate it and rent again.'
const rentElsewhere = 'Terminate it and rent again, if necessary in another region.'
const reportToOperator = 'Terminate it, rent another machine, and report this to the operator.'
const fixImage = 'Terminate it, correct the image and rent again.'

export const startAgain = 'Its disk is kept. Start it again, or terminate it.'

export const rentalOutcomes = {
  customer_request: { sentence: 'Terminated on request.' },
  completed: { sentence: 'Its command ended with exit code 0.' },
  stop_requested: { sentence: 'Stopped on request.', next: startAgain },
  stop_at: { sentence: 'Its scheduled stop was reached.', next: startAgain },
  interrupted: { sentence: 'It was interrupted: its GPUs were promised to an order at the full price.' },
  start_refused: { sentence: 'Its host refused to start it.', next: startAgain },
  disk_not_copied: { sentence: 'Its disk could not be copied to another host.', next: startAgain },
  started_elsewhere: { sentence: 'Its engine ran it although it was stopped.', next: 'It is being stopped again.' },
  stop_stuck: {
    sentence: 'The engine has not stopped it yet.',
    next: 'The operator has been notified.',
  },
  auto_terminate: { sentence: 'Its scheduled end was reached.' },
  term_expired: { sentence: 'Its reserved term ended.' },
  balance_empty: { sentence: 'The balance ran out.', next: 'Add money before you rent again.' },
  spending_limit: { sentence: 'It reached its spending limit.' },
  budget_exceeded: {
    sentence: 'A budget of the account was used up for this month.',
    next: 'Raise the budget, or wait for the next month.',
  },
  idle: { sentence: 'It was not used for as long as its idle rule allows.' },
  group_ended: { sentence: 'Its group ended or started again.' },
  job_cancelled: { sentence: 'Its job was cancelled.' },
  job_lost: { sentence: 'Contact with its host was lost. Its job starts again elsewhere.' },
  job_ended: { sentence: 'Its job ended it.' },
  replica_ended: { sentence: 'Ended by its deployment.' },
  start_timed_out: { sentence: 'It did not start in time.', next: rentElsewhere },
  machine_lost: { sentence: 'Its engine lost the machine.', next: rentAgain },
  reboot_unfinished: {
    sentence: 'It has not come back from its reboot.',
    next: 'Nothing is charged meanwhile. Wait for it, or terminate it and rent again.',
  },
  no_capacity: {
    sentence: 'No machine was available after all.',
    next: 'Terminate it, then try another region, size or GPU.',
  },
  teardown_stuck: {
    sentence: 'The engine has not shut it down yet.',
    next: 'Nothing is charged. The operator has been notified.',
  },
  image_not_found: { sentence: 'The image was not found.', next: fixImage },
  image_refused: { sentence: 'The image was rejected.', next: fixImage },
  image_invalid: { sentence: 'The image is not valid.', next: fixImage },
  image_too_large: { sentence: 'The image is larger than the disk of the machine.', next: fixImage },
  image_without_command: { sentence: 'The image has no command to run.', next: fixImage },
  bad_file_path: {
    sentence: 'A file of the order cannot be written to its path.',
    next: 'Terminate it, correct the path and rent again.',
  },
  registry_refused: { sentence: 'The image registry denied access.', next: fixImage },
  process_exited: {
    sentence: 'Its command exited, which ends the container.',
    next: 'Check its logs, then rent again.',
  },
  out_of_memory: { sentence: 'It ran out of memory.', next: 'Rent a machine with more memory.' },
  disk_share_exceeded: {
    sentence: 'It used more disk space than it has.',
    next: 'Start it and delete files at once, or rent a machine with more disk space.',
  },
  powered_off: { sentence: 'It was powered off from within the machine.', next: startAgain },
  crashed: { sentence: 'Its operating system crashed.', next: rentAgain },
  boot_timed_out: { sentence: 'It did not boot in time.', next: rentAgain },
  boot_failed: { sentence: 'It could not boot.', next: rentElsewhere },
  vanished: { sentence: 'It was removed from its host.', next: reportToOperator },
  removed: { sentence: 'It was removed from its host.', next: reportToOperator },
  unreadable: { sentence: 'Its host lost its record of the machine.', next: reportToOperator },
  gpu_missing: { sentence: 'The GPU is missing from its host.', next: reportToOperator },
  gpu_unavailable: { sentence: 'The GPU of its host cannot be used.', next: reportToOperator },
  gpu_passthrough_unavailable: {
    sentence: 'Its host cannot pass the GPU to a virtual machine.',
    next: reportToOperator,
  },
  volume_unavailable: {
    sentence: 'Its host could not mount one of its storage volumes.',
    next: reportToOperator,
  },
  weights_unavailable: {
    sentence: 'The weights of its model could not be downloaded.',
    next: 'Check where they are stored, then deploy again.',
  },
  bad_base_image: { sentence: 'Its host could not use the base image.', next: reportToOperator },
  firmware_missing: { sentence: 'Its host has no firmware for virtual machines.', next: reportToOperator },
  hardware_differs: { sentence: 'The hardware does not match the offer.', next: reportToOperator },
  not_clean: { sentence: 'The host was not clean for a new tenant.', next: reportToOperator },
  cleaned: { sentence: 'Its host was cleaned.', next: reportToOperator },
  ended: { sentence: 'The machine ended.', next: rentAgain },
  engine_failure: { sentence: 'The engine reported a failure.', next: rentElsewhere },
  image_unavailable: { sentence: 'The image could not be pulled.', next: fixImage },
  registry_unreachable: {
    sentence: 'The image registry could not be reached.',
    next: 'Terminate it and rent again later.',
  },
  tenants_not_isolated: { sentence: 'Its host cannot isolate its tenants right now.', next: reportToOperator },
  bad_ssh_key: {
    sentence: 'One of the SSH keys is not valid.',
    next: 'Terminate it, correct the SSH key and rent again.',
  },
  bad_login_user: { sentence: 'Its host has an invalid login user.', next: reportToOperator },
  bad_id: { sentence: 'Its host cannot use the ID of the machine.', next: reportToOperator },
  no_spec: { sentence: 'Its host does not know what to run.', next: reportToOperator },
  wrong_kind: { sentence: 'Its host only runs bare-metal rentals.', next: reportToOperator },
} as const satisfies Readonly<Record<string, { readonly sentence: string; readonly next?: string }>>

export type RentalOutcome = keyof typeof rentalOutcomes
