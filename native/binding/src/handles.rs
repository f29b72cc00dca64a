//! Buffers by number, for calls that are too short to pay for objects of classes: an object of JavaScript owns a number and
//! keeps its memory alive, and a run reads its numbers from memory that both sides share.

use std::cell::RefCell;
use std::ffi::{c_void, CStr};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use napi::bindgen_prelude::Object;
use napi::{check_status, sys, Env, JsValue, Result};
use napi_derive::napi;

use heddle_core::program::Program;

use crate::buffer::Piece;
use crate::device::Seat;
use crate::{fail, whole};

/// Values by number. The number of a value that was taken stays reserved until it is freed.
pub struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    const fn new() -> Slab<T> {
        Slab { values: Vec::new(), free: Vec::new() }
    }

    pub fn add(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.values[number as usize] = Some(value);
            return number;
        }
        self.values.push(Some(value));
        self.values.len() as u32 - 1
    }

    fn get(&self, number: usize) -> Option<&T> {
        self.values.get(number)?.as_ref()
    }

    pub fn take(&mut self, number: usize) -> Option<T> {
        self.values.get_mut(number)?.take()
    }

    pub fn remove(&mut self, number: u32) {
        self.values[number as usize] = None;
        self.free.push(number);
    }
}

struct Handle {
    piece: Piece,
    /// Bytes that count as the owner's: none of a part of another buffer.
    counted: usize,
}

/// What one thread of JavaScript knows by number. No borrow lasts over a call into JavaScript, which may collect.
pub struct Table {
    handles: Slab<Handle>,
    pub devices: Slab<Arc<Seat>>,
    pub programs: Slab<Arc<Program>>,
    /// Bytes of all handles, and how many of them the garbage collector knows of.
    bytes: i64,
    told: i64,
    /// Where JavaScript writes the numbers of a run.
    array: sys::napi_ref,
    numbers: *const u32,
    room: usize,
}

thread_local! {
    pub static TABLE: RefCell<Table> = const {
        RefCell::new(Table {
            handles: Slab::new(),
            devices: Slab::new(),
            programs: Slab::new(),
            bytes: 0,
            told: 0,
            array: null_mut(),
            numbers: null(),
            room: 0,
        })
    };
}

impl Table {
    fn piece(&self, number: usize) -> Result<&Piece> {
        self.handles.get(number).map(|handle| &handle.piece).ok_or_else(|| fail("the buffer was disposed"))
    }

    fn take(&mut self, number: usize) -> Option<Piece> {
        let handle = self.handles.take(number)?;
        self.bytes -= handle.counted as i64;
        Some(handle.piece)
    }
}

/// The piece of a handle.
pub fn piece_of(handle: f64) -> Result<Piece> {
    let number = whole("handle", handle)?;
    TABLE.with_borrow(|table| table.piece(number).cloned())
}

/// The owner was collected. No JavaScript may run here.
unsafe extern "C" fn collected(_env: sys::napi_env, number: *mut c_void, _hint: *mut c_void) {
    let number = number as usize;
    let piece = TABLE.try_with(|table| {
        let mut table = table.borrow_mut();
        let piece = table.take(number);
        table.handles.remove(number as u32);
        piece
    });
    drop(piece);
}

/// Calls a function of these: what it returns is a number for JavaScript, an error is thrown there.
unsafe fn answer(
    env: sys::napi_env,
    info: sys::napi_callback_info,
    function: impl FnOnce(&Arguments) -> Result<f64>,
) -> sys::napi_value {
    let mut arguments = Arguments { env, values: [null_mut(); 4] };
    let mut count = arguments.values.len();
    sys::napi_get_cb_info(env, info, &mut count, arguments.values.as_mut_ptr(), null_mut(), null_mut());
    match function(&arguments) {
        Ok(number) => {
            let mut value = null_mut();
            sys::napi_create_double(env, number, &mut value);
            value
        }
        Err(error) => {
            napi::JsError::from(error).throw_into(env);
            null_mut()
        }
    }
}

/// The arguments of a call; absent ones are undefined.
struct Arguments {
    env: sys::napi_env,
    values: [sys::napi_value; 4],
}

impl Arguments {
    fn number(&self, index: usize, name: &str) -> Result<usize> {
        let mut value = 0.0;
        let status = unsafe { sys::napi_get_value_double(self.env, self.values[index], &mut value) };
        check_status!(status, "{name} must be a whole number")?;
        whole(name, value)
    }

    /// Makes the first argument the owner of a new handle.
    fn own(&self, piece: Piece, counted: usize) -> Result<f64> {
        let number = TABLE.with_borrow_mut(|table| {
            table.bytes += counted as i64;
            table.handles.add(Handle { piece, counted })
        });
        // This call may collect, and so calls `collected`.
        let status = unsafe {
            let data = number as usize as *mut c_void;
            sys::napi_add_finalizer(self.env, self.values[0], data, Some(collected), null_mut(), null_mut())
        };
        if status != sys::Status::napi_ok {
            unsafe { collected(self.env, number as usize as *mut c_void, null_mut()) };
        }
        check_status!(status, "the owner of a buffer must be an object")?;
        Ok(number.into())
    }
}

/// `allocate(owner, bytes)`: the number of a new buffer, which lives as long as its owner, or until `release`.
unsafe extern "C" fn allocate(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |arguments| {
        let bytes = arguments.number(1, "bytes")?;
        arguments.own(Piece::new(bytes)?, bytes)
    })
}

/// `share(owner, handle, offset, bytes)`: the number of a part of a buffer.
unsafe extern "C" fn share(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |arguments| {
        let (number, offset) = (arguments.number(1, "handle")?, arguments.number(2, "offset")?);
        let bytes = arguments.number(3, "bytes")?;
        let part = TABLE.with_borrow(|table| table.piece(number)?.part(offset, bytes))?;
        arguments.own(part, 0)
    })
}

/// `release(handle)`: frees the memory, unless parts or runs use it. Harmless when repeated.
unsafe extern "C" fn release(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |arguments| {
        let number = arguments.number(0, "handle")?;
        drop(TABLE.with_borrow_mut(|table| table.take(number)));
        Ok(0.0)
    })
}

/// `copyOut(handle, bytes)`: copies the first bytes of a buffer.
unsafe extern "C" fn copy_out(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |arguments| {
        let number = arguments.number(0, "handle")?;
        // Held, as the next call may collect the owner.
        let piece = TABLE.with_borrow(|table| table.piece(number).cloned())?;
        let (mut length, mut data) = (0, null_mut());
        let (kind, buffer, offset) = (null_mut(), null_mut(), null_mut());
        let status =
            sys::napi_get_typedarray_info(env, arguments.values[1], kind, &mut length, &mut data, buffer, offset);
        check_status!(status, "a Uint8Array is needed")?;
        if length > 0 {
            let target = std::slice::from_raw_parts_mut(data.cast::<u8>(), length);
            piece.read(target, 0)?;
        }
        Ok(length as f64)
    })
}

/// `runHandles(device, program, count)`: runs a program on the handles that `numbers` begins with, if the device is idle;
/// gives 1, or 0 if it is busy or closed.
unsafe extern "C" fn run_handles(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |arguments| {
        let (device, program) = (arguments.number(0, "device")?, arguments.number(1, "program")?);
        let count = arguments.number(2, "count")?;
        let prepared = TABLE.with_borrow(|table| {
            let (Some(seat), Some(program)) = (table.devices.get(device), table.programs.get(program)) else {
                return Ok(None);
            };
            if count > table.room {
                return Err(fail(format!("{count} numbers do not fit into {}", table.room)));
            }
            let numbers = std::slice::from_raw_parts(table.numbers, count);
            let uses = crate::device::arguments(program, count, |index| table.piece(numbers[index] as usize))?;
            Ok(Some((seat.clone(), program.clone(), uses)))
        })?;
        let Some((seat, program, uses)) = prepared else { return Ok(0.0) };
        Ok(seat.run_now(&program, uses)?.is_ok().into())
    })
}

/// `tellCollector()`: tells the garbage collector how many bytes its objects own.
unsafe extern "C" fn tell_collector(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    answer(env, info, |_| {
        let change = TABLE.with_borrow_mut(|table| table.bytes - std::mem::replace(&mut table.told, table.bytes));
        let mut total = 0;
        check_status!(sys::napi_adjust_external_memory(env, change, &mut total))?;
        Ok(0.0)
    })
}

/// `shareNumbers(numbers)`: the `Uint32Array` that `runHandles` reads, which is the first that was given: several copies of the
/// package may use one addon.
unsafe extern "C" fn share_numbers(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
    let mut shared = null_mut();
    let result = answer(env, info, |arguments| {
        let known = TABLE.with_borrow(|table| table.array);
        if !known.is_null() {
            check_status!(sys::napi_get_reference_value(env, known, &mut shared))?;
            return Ok(0.0);
        }
        let (mut kind, mut room, mut data, mut reference) = (0, 0, null_mut(), null_mut());
        let array = arguments.values[0];
        let status = sys::napi_get_typedarray_info(env, array, &mut kind, &mut room, &mut data, null_mut(), null_mut());
        check_status!(status, "a Uint32Array is needed")?;
        if kind != sys::TypedarrayType::uint32_array {
            return Err(fail("a Uint32Array is needed"));
        }
        // The array lives as long as the environment.
        check_status!(sys::napi_create_reference(env, array, 1, &mut reference))?;
        TABLE.with_borrow_mut(|table| {
            (table.array, table.numbers, table.room) = (reference, data.cast_const().cast(), room)
        });
        shared = array;
        Ok(0.0)
    });
    if result.is_null() {
        result
    } else {
        shared
    }
}

#[napi(module_exports)]
pub fn exports(exports: Object, env: Env) -> Result<()> {
    crate::kept::keep_blocks();
    type Function = unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> sys::napi_value;
    let functions: [(&CStr, Function); 7] = [
        (c"allocate", allocate),
        (c"share", share),
        (c"release", release),
        (c"copyOut", copy_out),
        (c"runHandles", run_handles),
        (c"tellCollector", tell_collector),
        (c"shareNumbers", share_numbers),
    ];
    for (name, function) in functions {
        let mut value = null_mut();
        let length = name.to_bytes().len() as isize;
        unsafe {
            let created =
                sys::napi_create_function(env.raw(), name.as_ptr(), length, Some(function), null_mut(), &mut value);
            check_status!(created)?;
            check_status!(sys::napi_set_named_property(env.raw(), exports.raw(), name.as_ptr(), value))?;
        }
    }
    Ok(())
}
