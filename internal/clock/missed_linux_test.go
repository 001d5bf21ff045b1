package clock

import "time"

func sleepOfMachineNow() time.Duration { return sleepOfMachine(0, 0) }
